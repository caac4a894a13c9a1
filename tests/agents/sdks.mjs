// sdks.mjs BASE - JavaScript SDKs against a scripted model: each asks for the weather, gets a tool
// call, sends the result and shows the last words.  Prints a line a check: "ok NAME" or "FAILED NAME".
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [base, folder] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), 'package.json'));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const schema = { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } }, required: ['city'] };
const FINAL = 'It is sunny in Paris.';

const tests = {
  async openaiChat() {
    const { default: OpenAI } = await load('openai');
    const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'any', maxRetries: 0 });
    const runner = client.chat.completions.runTools({
      model: 'm', stream: true, messages: [{ role: 'user', content: 'WEATHER' }],
      tools: [{ type: 'function', function: { name: 'get_weather', parameters: schema, parse: JSON.parse,
        function: ({ city, days }) => (city === 'Paris' && days === 3 ? 'sunny' : 'wrong') } }] });
    return await runner.finalContent() === FINAL;
  },
  async openaiResponses() {
    const { default: OpenAI } = await load('openai');
    const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'any', maxRetries: 0 });
    const tools = [{ type: 'function', name: 'get_weather', parameters: schema, strict: false }];
    const first = await client.responses.stream({ model: 'm', input: 'WEATHER', tools }).finalResponse();
    const call = first.output.find((item) => item.type === 'function_call');
    const second = await client.responses.create({ model: 'm', tools, input: [
      { role: 'user', content: 'WEATHER' }, ...first.output,
      { type: 'function_call_output', call_id: call.call_id, output: 'sunny' }] });
    return second.output_text === FINAL && JSON.parse(call.arguments).days === 3;
  },
  async anthropic() {
    const { default: Anthropic } = await load('@anthropic-ai/sdk');
    const client = new Anthropic({ baseURL: base, apiKey: 'any', maxRetries: 0 });
    const runner = client.beta.messages.toolRunner({
      model: 'm', max_tokens: 200, messages: [{ role: 'user', content: 'WEATHER' }],
      tools: [{ type: 'custom', name: 'get_weather', description: 'Weather.', input_schema: schema,
        parse: (x) => x, run: ({ city }) => (city === 'Paris' ? 'sunny' : 'wrong') }] });
    const last = await runner;
    return last.content.at(-1).text === FINAL;
  },
  async aiSdkOpenai() {
    const { createOpenAICompatible } = await load('@ai-sdk/openai-compatible');
    return aiSdk(createOpenAICompatible({ name: 'local', baseURL: base + '/v1', apiKey: 'any' })('m'));
  },
  async aiSdkAnthropic() {
    const { createAnthropic } = await load('@ai-sdk/anthropic');
    return aiSdk(createAnthropic({ baseURL: base + '/v1', apiKey: 'any' })('m'));
  },
  async langchain() {
    const { ChatOpenAI } = await load('@langchain/openai');
    const { HumanMessage, ToolMessage } = await load('@langchain/core/messages');
    const model = new ChatOpenAI({ model: 'm', apiKey: 'any', maxRetries: 0, configuration: { baseURL: base + '/v1' } })
      .bindTools([{ type: 'function', function: { name: 'get_weather', parameters: schema } }]);
    const question = new HumanMessage('WEATHER');
    const first = await model.invoke([question]);
    const call = first.tool_calls[0];
    const second = await model.invoke([question, first, new ToolMessage({ tool_call_id: call.id, content: 'sunny' })]);
    return call.args.days === 3 && second.content === FINAL;
  },
};

async function aiSdk(model) {
  const { streamText, tool, jsonSchema, stepCountIs } = await load('ai');
  let called = null;
  const result = streamText({ model, prompt: 'WEATHER', maxRetries: 0, stopWhen: stepCountIs(3), tools: {
    get_weather: tool({ description: 'Weather.', inputSchema: jsonSchema(schema),
      execute: async (input) => { called = input; return 'sunny'; } }) } });
  const text = await result.text;
  const steps = await result.steps;
  return text === FINAL && called.days === 3 && steps[0].reasoningText === 'The user wants the weather.';
}

for (const [name, test] of Object.entries(tests)) {
  try {
    console.log(await test() ? 'ok' : 'FAILED', name);
  } catch (error) {
    console.log('FAILED', name, String(error).slice(0, 300));
  }
}
process.exit(0);
