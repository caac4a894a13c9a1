/* notify.h - word to the service manager that started us (systemd, Type=notify). */
#pragma once

/* `state` as sd_notify(3) has it: "READY=1", "STOPPING=1".  Nothing happens without a manager. */
void notify_manager(const char *state);
