/**
 * Client of the Godwit notification service, for browsers and other places that have a global WebSocket. Node gets
 * "godwit/node" by itself, which brings a WebSocket.
 */

export { Client, type ClientOptions, type TokenSource } from "./client.js";
export type { Duration } from "./durations.js";
export {
  GodwitError,
  RecalledError,
  RedeliverAfter,
  RefusedError,
  SubscriptionError,
  UndecodableError,
} from "./errors.js";
export type { Message, Notification, ObjectUpdate, Welcome } from "./live/frames.js";
export type { Listener, ListenOptions, NotificationHandler } from "./live/listener.js";
export type { ObjectHandler, Registration, RegistrationStatus } from "./live/registrations.js";
export { MemoryState, type StateStore, StorageState } from "./live/state.js";
export type { MessageHandler } from "./live/topics.js";
export type { ObjectState, Publication, Receipt, Status } from "./publish.js";
