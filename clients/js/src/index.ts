/**
 * Client of the Godwit notification service, for browsers and other places that have a global WebSocket. Node gets
 * "godwit/node" by itself, which brings a WebSocket.
 */

export {
  type Audience,
  Campaign,
  type CampaignDelivery,
  type CampaignFields,
  type CampaignStatus,
  type Correction,
  type CorrectionFields,
} from "./campaigns.js";
export { Answer, Client, type ClientOptions, type RequestOptions, type TokenSource } from "./client.js";
export { Deduplicator } from "./deduplicator.js";
export type { Duration } from "./durations.js";
export {
  type Channel,
  Channels,
  type Endpoint,
  type EndpointChange,
  Endpoints,
  type NewEndpoint,
} from "./endpoints.js";
export {
  GodwitError,
  NoAnswerError,
  NobodyServesError,
  RecalledError,
  RedeliverAfter,
  RefusedError,
  ServeError,
  SubscriptionError,
  UndecodableError,
  UnreachableError,
} from "./errors.js";
export type {
  InboxCounts,
  InboxItemState,
  InboxUpdate,
  Message,
  Notification,
  ObjectUpdate,
  ServedRequest,
  Welcome,
} from "./live/frames.js";
export type { Listener, ListenOptions, NotificationHandler } from "./live/listener.js";
export type { WebTransportOptions } from "./live/prefer.js";
export type { ObjectHandler, Registration, RegistrationStatus } from "./live/registrations.js";
export { Reply, type ReplyOptions } from "./live/reply.js";
export { MemoryState, type StateStore, StorageState } from "./live/state.js";
export type { MessageHandler } from "./live/topics.js";
export type { RequestHandler } from "./live/workers.js";
export type { APNs, FCM, LiveActivity } from "./phones.js";
export type { ObjectState, Publication, Receipt, Status, Step } from "./publish.js";
