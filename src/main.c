/* main.c - placeholder of the argument table. */
int main(void) {
    return 0;
}
