/** What Android devices alone get of a notification, over Firebase Cloud Messaging; the names are those of the API. */
export interface FCM {
  channel_id?: string;
  sound?: string;
  /** False: Android shows the notification itself. */
  data_only?: boolean;
  /** The app shows a notification that stays, as Android's Live Updates do. */
  ongoing?: boolean;
  /** Of an ongoing one: its text in the status bar. */
  short_text?: string;
  /** Of an ongoing one: how full its bar is, from 0 to 100. */
  progress?: number;
  direct_boot_ok?: boolean;
  restricted_satellite_ok?: boolean;
  bandwidth_constrained_ok?: boolean;
}

/** What Apple's devices alone get of a notification. */
export interface APNs {
  sound?: string;
  badge?: number;
  thread_id?: string;
  interruption_level?: "passive" | "active" | "time-sensitive" | "critical";
  /** From 0 to 1. */
  relevance_score?: number;
  /** The sound plays although the device is muted. */
  critical?: boolean;
  /** Of a critical sound, from 0 to 1. */
  volume?: number;
  background?: boolean;
}

/** The Live Activity that a notification starts on the channel liveactivitystart. Its title and body are the alert. */
export interface LiveActivity {
  /** Name of the app's ActivityAttributes. */
  type: string;
  attributes?: Record<string, unknown>;
  /** The content state at the start. */
  state: Record<string, unknown>;
  /** The object that the activity follows: the payload of each version is its next content state. */
  group?: string;
  object?: string;
  /** Id of the object's broadcast channel. */
  broadcast?: string;
  /** How long the state is good for, like 10m. */
  stale_after?: string;
  relevance_score?: number;
}
