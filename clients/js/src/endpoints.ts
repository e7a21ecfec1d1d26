import { type Audience, type CampaignAPI, wireAudience } from "./campaigns.js";

/** What an endpoint is to be. One of this address is renewed by what is given. */
export interface NewEndpoint {
  channel: string;
  /** As the channel defines it, for example `{ chat_id: 42 }`. */
  address?: Record<string, unknown>;
  /** Absent: an anonymous subscriber. */
  recipient?: string;
  tags?: string[];
  attributes?: Record<string, string | number | boolean>;
  locale?: string;
  timezone?: string;
}

/** A push address and what is known of it. */
export interface Endpoint extends NewEndpoint {
  id: string;
  /** active or disabled */
  status: string;
  disabledReason?: string;
}

/** What of an endpoint can be changed; `null` takes an attribute away. */
export interface EndpointChange {
  addTags?: string[];
  removeTags?: string[];
  tags?: string[];
  attributes?: Record<string, string | number | boolean | null>;
  recipient?: string;
  locale?: string;
  timezone?: string;
  status?: "active" | "disabled";
}

type Wire = Record<string, unknown>;

const path = (id: string) => `/v1/endpoints/${encodeURIComponent(id)}`;

/** The endpoints of an app. */
export class Endpoints {
  constructor(private readonly api: CampaignAPI) {}

  /** Has an endpoint be there and returns its id. */
  async register(e: NewEndpoint): Promise<string> {
    return String((await this.api.call<Wire>("POST", "/v1/endpoints", { json: e })).id);
  }

  async get(id: string): Promise<Endpoint> {
    return readEndpoint(await this.api.call("GET", path(id)));
  }

  /** Goes through the endpoints that all of this holds for, in the order in which they were registered. */
  async *list(
    filter: {
      channel?: string;
      recipient?: string;
      tag?: string;
      status?: string;
      where?: string;
      segment?: string;
    } = {},
  ): AsyncGenerator<Endpoint, void, void> {
    for (let cursor: string | undefined; ; ) {
      const query = { ...filter, cursor, limit: "500" };
      const page = await this.api.call<{ items: Wire[]; next_cursor: string }>("GET", "/v1/endpoints", { query });
      for (const w of page.items) yield readEndpoint(w);
      if (!page.next_cursor) return;
      cursor = page.next_cursor;
    }
  }

  /** Changes what is named, and returns what the endpoint is then. */
  async change(id: string, { addTags, removeTags, ...rest }: EndpointChange): Promise<Endpoint> {
    const json = { ...rest, add_tags: addTags, remove_tags: removeTags };
    return readEndpoint(await this.api.call("PATCH", path(id), { json }));
  }

  async delete(id: string): Promise<void> {
    await this.api.call("DELETE", path(id));
  }

  /** How many active endpoints an audience has. */
  async count(audience: Audience): Promise<number> {
    return (await this.api.call<{ count: number }>("POST", "/v1/audience/count", { json: wireAudience(audience) }))
      .count;
  }
}

function readEndpoint(w: Wire): Endpoint {
  const { disabled_reason, ...rest } = w as Wire & { disabled_reason?: string };
  return { ...(rest as unknown as Endpoint), ...(disabled_reason ? { disabledReason: disabled_reason } : {}) };
}

/** What may be seen of a channel's settings. */
export interface Channel {
  channel: string;
  configured: boolean;
  enabled: boolean;
  settings: Record<string, unknown>;
  /** Names of those that are set. */
  credentials: string[];
}

/** The channels of an app. Changing them needs role admin. */
export class Channels {
  constructor(private readonly api: CampaignAPI) {}

  /** Also those that are not set up. */
  async list(): Promise<Channel[]> {
    return (await this.api.call<{ items: Channel[] }>("GET", "/v1/channels")).items;
  }

  /** Sets a channel up; docs/guides/channels.md has the settings of each. */
  async set(channel: string, settings: Record<string, unknown>): Promise<void> {
    await this.api.call("PUT", `/v1/channels/${encodeURIComponent(channel)}`, { json: settings });
  }

  /** Tries a channel's credentials or sends a message to an address. */
  async test(
    channel: string,
    address?: Record<string, unknown>,
  ): Promise<{ ok: boolean; outcome: string; detail?: string }> {
    return this.api.call("POST", `/v1/channels/${encodeURIComponent(channel)}/test`, { json: { address } });
  }

  /** Forgets a channel's settings and credentials. */
  async delete(channel: string): Promise<void> {
    await this.api.call("DELETE", `/v1/channels/${encodeURIComponent(channel)}`);
  }
}
