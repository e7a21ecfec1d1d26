/** Web Push for browsers: subscribing, and asking for it. */

export { EndpointError } from "./endpoint.js";
export { type FailureReason, PushError } from "./failure.js";
export type { ShowOptions, WorkerMessage } from "./once.js";
export { Prompt, type PromptOptions, type PromptTexts } from "./prompt.js";
export { Push, type PushOptions, type PushStatus } from "./subscriber.js";
