import { sleep } from "./backoff.js";
import type { Call } from "./client.js";
import { type Duration, durationText } from "./durations.js";
import { ulid } from "./ulid.js";

/** What a campaign is to be. */
export interface CampaignFields {
  name?: string;
  /** `title` and `body` with variables, `url`, `locales`, and what only some channels understand, as the API calls it. */
  content?: Record<string, unknown>;
  /** The name of one of the app's templates, whose content is taken as it is now; then there is no content. */
  template?: string;
  /** The same for everybody; they go before attributes. */
  variables?: Record<string, string | number | boolean>;
  audience?: Audience;
  /**
   * Two messages to compare. The content of the first is the campaign's own. If their shares leave a rest of the
   * audience, it gets the better one, `decideAfter` both were sent.
   */
  variants?: CampaignVariant[];
  /** What makes a variant the better one. */
  metric?: "clicks" | "shown";
  decideAfter?: Duration;
  /** A date and a time of the day where each recipient is, like 2026-12-01T09:00, in the place of sendAt. */
  localTime?: { at: string; fallback?: string; passed?: "next_day" | "now" };
  /** Begin then: it is scheduled as soon as it is made. */
  sendAt?: Date;
  /** Most messages: 25/s, 100/m, 1000/h. */
  rate?: string;
  spread?: Duration;
  quietHours?: { from: string; to: string; timezone?: string; fallback?: string };
  ttl?: Duration;
  expiresAt?: Date;
  priority?: "high" | "normal" | "low";
  collapseKey?: string;
  utm?: string;
  track?: boolean;
}

/** One of two messages to compare. */
export type CampaignVariant = Pick<CampaignFields, "content" | "template" | "variables"> & {
  /** Percent of the audience. */
  share: number;
};

/** The figures of a variant, or of the rest of the audience. */
export interface VariantStatus {
  total: number;
  counts: Record<string, number>;
  shown: number;
  clicked: number;
}

/** Picks endpoints: what is given must all hold. */
export interface Audience {
  channels?: string[];
  recipients?: string[];
  tagsAny?: string[];
  tagsAll?: string[];
  /** A segment expression, for example `city = "Oslo" and age >= 18`. */
  where?: string;
  /** A stored segment, whose expression must hold too. A campaign takes the one of the moment at which it begins to send. */
  segment?: string;
}

/** What messages say instead: a content, or a template. Without variables, those of the campaign are taken. */
export type CorrectionFields = Pick<CampaignFields, "content" | "template" | "variables">;

/** How far the correction of what was sent has come: it is done when as many messages are corrected or not. */
export interface Correction {
  messages: number;
  corrected: number;
  /** The deliveries say why. */
  notCorrected: number;
  /** Over channels whose messages stay as they are. */
  kept: number;
}

/** How a campaign stands. */
export interface CampaignStatus {
  id: string;
  name: string;
  /** Of its definition and start time: see `revise`. */
  revision: string;
  /** draft scheduled running paused completed cancelled failed correcting recalling recalled */
  state: string;
  /** Why it is paused or failed. */
  detail?: string;
  total: number;
  /** The total is final. */
  enumerated: boolean;
  /** By outcome: pending accepted failed expired suppressed unknown recalled. */
  counts: Record<string, number>;
  shown: number;
  clicked: number;
  /** What a recall could not take back. */
  notRecalled: number;
  /** How far the last correction has come. */
  correction?: Correction;
  /** The figures of those who got a variant before the decision. */
  variants?: Record<"A" | "B", VariantStatus>;
  /** Those who get the better variant. */
  rest?: VariantStatus;
  /** Which variant the rest gets. */
  decision?: { variant: "A" | "B"; reason: string };
  /** Nothing happens to it by itself any more. */
  ended: boolean;
}

/** What became of one message of a campaign. */
export interface CampaignDelivery {
  id: string;
  endpoint: string;
  recipient?: string;
  channel: string;
  outcome: string;
  /** The provider's words. */
  detail?: string;
  attempts: number;
  /** Why it could not be taken back. */
  recall?: string;
  /** Why it could not be corrected. */
  correction?: string;
  /** That it says: A or B. Absent without variants, and until it is decided. */
  variant?: string;
}

type Wire = Record<string, unknown>;

/** What a campaign needs of the client. */
export interface CampaignAPI {
  call<T>(method: string, path: string, call?: Call): Promise<T>;
  lines(path: string, query: NonNullable<Call["query"]>): Promise<Wire[]>;
}

const ended = new Set(["completed", "cancelled", "failed", "recalled"]);

/** Milliseconds between two looks of `progress`. */
const lookEvery = 1_000;
const deliveriesPage = 500;

/** One campaign. A new one is made by the first method that needs it to be there. */
export class Campaign {
  private readonly key = ulid(); // so that a retry makes no second one
  private made: Promise<string> | undefined;
  private known: string;

  /** Use `Client.campaign`. */
  constructor(
    private readonly api: CampaignAPI,
    private readonly what: string | CampaignFields,
  ) {
    this.known = typeof what === "string" ? what : "";
  }

  /** Empty as long as it has not been made. */
  get id(): string {
    return this.known;
  }

  /** Makes it, a draft unless it says when it is to be sent. Again changes nothing. */
  async create(): Promise<string> {
    if (this.known !== "" || typeof this.what === "string") return this.known;
    const json = wireCampaign(this.what);
    this.made ??= this.api
      .call<Wire>("POST", "/v1/campaigns", { json, idempotencyKey: this.key })
      .then((answer) => String(answer.id));
    try {
      this.known = await this.made;
    } finally {
      if (this.known === "") this.made = undefined; // it may be tried again
    }
    return this.known;
  }

  private async path(verb = ""): Promise<string> {
    return `/v1/campaigns/${encodeURIComponent(await this.create())}${verb && `/${verb}`}`;
  }

  private async move(verb: string): Promise<CampaignStatus> {
    return readCampaign(await this.api.call<Wire>("POST", await this.path(verb)));
  }

  async status(): Promise<CampaignStatus> {
    return readCampaign(await this.api.call<Wire>("GET", await this.path()));
  }

  /** Lets it go, at once or at its time. */
  start(): Promise<CampaignStatus> {
    return this.move("start");
  }

  /** Stops it where it is. */
  pause(): Promise<CampaignStatus> {
    return this.move("pause");
  }

  resume(): Promise<CampaignStatus> {
    return this.move("resume");
  }

  /** Ends it: what is pending is not sent. */
  cancel(): Promise<CampaignStatus> {
    return this.move("cancel");
  }

  /** Takes back what was sent, as far as the channels can; `progress` says when that is done. */
  recall(): Promise<CampaignStatus> {
    return this.move("recall");
  }

  /** Makes the messages that were sent over Telegram say this instead; `progress` says when that is done. */
  async correct(says: CorrectionFields): Promise<CampaignStatus> {
    return readCampaign(await this.api.call<Wire>("POST", await this.path("correct"), { json: says }));
  }

  /** Ends the comparison of its variants: the rest of the audience gets this one. */
  async decide(variant: "A" | "B"): Promise<CampaignStatus> {
    return readCampaign(await this.api.call<Wire>("POST", await this.path("decide"), { json: { variant } }));
  }

  /** Makes a draft with its message, audience and pace. */
  async clone(name?: string): Promise<Campaign> {
    const path = await this.path("clone");
    const made = await this.api.call<Wire>("POST", path, { json: { name }, idempotencyKey: ulid() });
    return new Campaign(this.api, String(made.id));
  }

  /** Sends it to up to 20 endpoints at once, without counting it. */
  async test(endpoints: string[]): Promise<{ endpoint: string; outcome: string; detail: string | null }[]> {
    const path = await this.path("test");
    const answer = await this.api.call<{ results: { endpoint: string; outcome: string; detail: string | null }[] }>(
      "POST",
      path,
      { json: { endpoints } },
    );
    return answer.results;
  }

  /**
   * Replaces what it is to be, as long as it has not begun. With the revision of a status it replaces that and no other:
   * if somebody has changed the campaign since, the call fails with status 412.
   */
  async revise(fields: CampaignFields, revision?: string): Promise<CampaignStatus> {
    const call = { json: wireCampaign(fields), ifMatch: revision };
    return readCampaign(await this.api.call<Wire>("PUT", await this.path(), call));
  }

  /** Removes it and its report, or only the given revision. One that may still send has to be cancelled first. */
  async delete(revision?: string): Promise<void> {
    await this.api.call("DELETE", await this.path(), { ifMatch: revision });
  }

  /**
   * Yields how it stands, now and whenever a look each second finds it changed, until it has ended or the signal says so.
   * A draft or paused campaign has not ended.
   */
  async *progress(signal?: AbortSignal): AsyncGenerator<CampaignStatus, void, void> {
    for (let last = ""; !signal?.aborted; ) {
      const now = await this.status();
      const text = JSON.stringify(now);
      if (text !== last) yield now;
      if (now.ended) return;
      last = text;
      await sleep(lookEvery, signal);
    }
  }

  /** Goes through what became of each message, of one outcome or of all. */
  async *deliveries(outcome?: string): AsyncGenerator<CampaignDelivery, void, void> {
    const path = await this.path("deliveries");
    for (let cursor: string | undefined; ; ) {
      const lines = await this.api.lines(path, { outcome, cursor, format: "ndjson", limit: String(deliveriesPage) });
      for (const w of lines) {
        cursor = String(w.cursor);
        yield readDelivery(w);
      }
      if (lines.length < deliveriesPage) return;
    }
  }
}

/** Writes an audience as the API takes it. */
export const wireAudience = (a: Audience): Wire => ({
  channels: a.channels,
  recipients: a.recipients,
  tags_any: a.tagsAny,
  tags_all: a.tagsAll,
  where: a.where,
  segment: a.segment,
});

function wireCampaign(f: CampaignFields): Wire {
  return {
    name: f.name,
    template: f.template,
    variables: f.variables,
    content: f.content,
    audience: f.audience && wireAudience(f.audience),
    variants: f.variants,
    metric: f.metric,
    decide_after: f.decideAfter === undefined ? undefined : durationText(f.decideAfter),
    local_time: f.localTime,
    send_at: f.sendAt?.toISOString(),
    rate: f.rate,
    spread: f.spread === undefined ? undefined : durationText(f.spread),
    quiet_hours: f.quietHours,
    ttl: f.ttl === undefined ? undefined : durationText(f.ttl),
    expires_at: f.expiresAt?.toISOString(),
    priority: f.priority,
    collapse_key: f.collapseKey,
    utm: f.utm,
    track: f.track,
  };
}

const optional = <K extends string>(name: K, v: unknown): Partial<Record<K, string>> =>
  (v === null || v === undefined || v === "" ? {} : { [name]: String(v) }) as Partial<Record<K, string>>;

function readCampaign(w: Wire): CampaignStatus {
  const state = String(w.state);
  const counts = w.counts as Record<string, number>;
  return {
    id: String(w.id),
    name: String(w.name),
    revision: String(w.revision ?? ""),
    state,
    ...optional("detail", w.detail),
    total: Number(w.total),
    enumerated: w.enumerated === true,
    counts,
    shown: Number(w.shown),
    clicked: Number(w.clicked),
    notRecalled: Number(w.not_recalled ?? 0),
    ...(w.correction ? { correction: readCorrection(w.correction as Wire) } : {}),
    ...(w.variants ? { variants: readVariants(w.variants as Wire[]) } : {}),
    ...(w.rest ? { rest: readVariant(w.rest as Wire) } : {}),
    ...(w.decision ? { decision: w.decision as NonNullable<CampaignStatus["decision"]> } : {}),
    ended: ended.has(state) && !counts.pending,
  };
}

const readVariant = (w: Wire): VariantStatus => ({
  total: Number(w.total),
  counts: w.counts as Record<string, number>,
  shown: Number(w.shown),
  clicked: Number(w.clicked),
});

const readVariants = (list: Wire[]): NonNullable<CampaignStatus["variants"]> =>
  Object.fromEntries(list.map((w) => [w.name, readVariant(w)])) as NonNullable<CampaignStatus["variants"]>;

const readCorrection = (w: Wire): Correction => ({
  messages: Number(w.messages),
  corrected: Number(w.corrected),
  notCorrected: Number(w.not_corrected),
  kept: Number(w.kept),
});

function readDelivery(w: Wire): CampaignDelivery {
  return {
    id: String(w.id),
    endpoint: String(w.endpoint),
    ...optional("recipient", w.recipient),
    channel: String(w.channel),
    outcome: String(w.outcome),
    ...optional("detail", w.detail),
    attempts: Number(w.attempts),
    ...optional("recall", w.recall),
    ...optional("correction", w.correction),
    ...optional("variant", w.variant),
  };
}
