import { Backoff } from "../backoff.js";
import { isName } from "../names.js";
import { Digest } from "./digest.js";
import type { ClientFrame, ObjectUpdate, ServerFrame } from "./frames.js";
import { MemoryState, type StateStore } from "./state.js";

/** Handles the latest state of an object. Once it has returned the version counts as known; if it throws, the server tells again. */
export type ObjectHandler = (update: ObjectUpdate) => void | Promise<void>;

export type RegistrationStatus = "pending registration" | "registered" | "pending unregistration";

export interface Registration {
  group: string;
  object: string;
  status: RegistrationStatus;
  /** The newest version that was handled; "": none yet. */
  version: string;
}

interface Entry {
  group: string;
  object: string;
  wanted: boolean;
  status: RegistrationStatus;
  version: string;
  handler: ObjectHandler | undefined;
  /** Newest state not handled yet; while a handler runs, newer ones replace each other here. */
  next: ObjectUpdate | undefined;
  busy: boolean;
}

/** What a keeper needs of the session it speaks through. */
export interface Line {
  send(frame: ClientFrame): void;
  /** A session that has been welcomed. */
  live(): boolean;
}

/** Objects of one frame; the server takes 1,000. */
const maxObjects = 500;
/** How long after the last change a digest in a pong is not compared: the server answers changes once they are on its disk. */
const settleTime = 2_000;

/**
 * Keeps the set of objects that the application wants and makes the server's agree. Both sides know the digest of
 * theirs; where the digests differ the whole set is sent anew.
 */
export class Registrations {
  private readonly entries = new Map<string, Entry>();
  private readonly digest = new Digest();
  private readonly state: StateStore;
  private readonly retry = new Backoff(1_000, 300_000);
  private lastChange = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly line: Line,
    private readonly group: string,
    state: StateStore | undefined,
    private readonly failed: ((r: Registration, code: string) => void) | undefined,
    private readonly broken: (error: unknown) => void,
  ) {
    this.state = state ?? new MemoryState();
    this.restore();
  }

  /** The digest of what is wanted. */
  get wantedDigest(): string {
    return this.digest.toString();
  }

  get size(): number {
    return this.entries.size;
  }

  list(): Registration[] {
    return [...this.entries.values()].map(describe);
  }

  register(object: string, handler: ObjectHandler, group = this.group): void {
    if (!isName(object)) throw new RangeError(`"${object}" is not a name of an object`);
    if (!isName(group)) throw new RangeError("an object needs a group: name one here or when listening");
    const e = this.entry(group, object);
    e.handler = handler;
    const isNew = !e.wanted;
    if (isNew) {
      e.wanted = true;
      e.status = "pending registration";
      e.version = ""; // whoever registers is told the present one
      this.digest.add(group, object);
      this.save();
    }
    // The server has a restored registration already; asking again is needed only where no version was handled.
    if (this.line.live() && (isNew || e.version === "")) this.sendRegister([e]);
    if (e.next) void this.handle(e);
  }

  unregister(object: string, group = this.group): void {
    const e = this.entries.get(key(group, object));
    if (!e?.wanted) return;
    e.wanted = false;
    e.status = "pending unregistration";
    e.handler = e.next = undefined;
    this.digest.remove(group, object);
    this.save();
    if (!this.line.live()) return;
    this.lastChange = Date.now();
    this.line.send({ unregister: { objects: [object], group } });
  }

  /** A session began: the server said what it knows. */
  welcomed(digest: string): void {
    this.retry.reset();
    if (digest !== this.wantedDigest) {
      this.reset();
      return;
    }
    this.agreed();
    const unheard = [...this.entries.values()].filter((e) => e.wanted && e.handler && e.version === "");
    if (unheard.length > 0) this.sendRegister(unheard);
  }

  /** Takes a frame that concerns objects. */
  take(f: ServerFrame): void {
    if (f.registered) this.registered(f.registered);
    if (f.registrationFailed) this.refused(f.registrationFailed);
    if (f.object) this.update(f.object);
    const settled = Date.now() - this.lastChange >= settleTime;
    if (f.pong?.digest && settled) {
      if (f.pong.digest === this.wantedDigest) this.agreed();
      else this.reset();
    }
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private registered(r: { objects: string[]; group: string; digest: string }): void {
    for (const object of r.objects) {
      const e = this.entries.get(key(r.group || this.group, object));
      if (e?.wanted) e.status = "registered";
    }
    if (r.digest === this.wantedDigest) this.agreed();
  }

  /** Both sides have the same set: nothing is pending. */
  private agreed(): void {
    for (const [k, e] of this.entries) {
      if (e.wanted) e.status = "registered";
      else this.entries.delete(k);
    }
  }

  private refused(r: { objects: string[]; group: string; code: string; transient: boolean }): void {
    const hit = r.objects.map((o) => this.entries.get(key(r.group || this.group, o))).filter((e) => e !== undefined);
    if (r.transient) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        if (this.line.live()) this.reset();
      }, this.retry.next());
    }
    for (const e of hit) {
      if (!e.wanted) continue;
      if (r.transient) {
        e.status = "pending registration";
      } else {
        this.entries.delete(key(e.group, e.object));
        this.digest.remove(e.group, e.object);
        this.save();
      }
      this.failed?.(describe(e), r.code);
    }
  }

  private update(u: ObjectUpdate): void {
    const e = this.entries.get(key(u.group || this.group, u.object));
    if (!e?.wanted) return; // its unregistration is on the way
    if (!u.unknown && e.version !== "" && BigInt(u.version || 0) <= BigInt(e.version)) {
      this.ack(e, u.version);
      return;
    }
    const waiting = e.next;
    if (waiting && !u.unknown && BigInt(u.version || 0) < BigInt(waiting.version || 0)) return;
    e.next = u;
    void this.handle(e);
  }

  private async handle(e: Entry): Promise<void> {
    if (e.busy) return;
    e.busy = true;
    try {
      while (e.next && e.handler) {
        const u = e.next;
        e.next = undefined;
        await e.handler(u);
        this.handled(e, u);
      }
    } catch (error) {
      this.broken(error); // not acknowledged: the server tells again
    } finally {
      e.busy = false;
    }
  }

  private handled(e: Entry, u: ObjectUpdate): void {
    if (!u.unknown) {
      e.version = u.version;
      this.save();
    }
    this.ack(e, u.version);
  }

  private ack(e: Entry, version: string): void {
    if (version === "" || !e.wanted || !this.line.live()) return;
    this.line.send({ object_ack: { object: e.object, group: e.group, version } });
  }

  /** Sends the whole set anew; the server swaps it in when the last frame has come. */
  private reset(): void {
    const frames = this.frames([...this.entries.values()].filter((e) => e.wanted));
    if (frames.length === 0) frames.push({ objects: [] });
    this.lastChange = Date.now();
    frames.forEach((f, i) => {
      this.line.send({ register: { ...f, reset: i === 0, more: i < frames.length - 1 } });
    });
  }

  private sendRegister(entries: Entry[]): void {
    this.lastChange = Date.now();
    for (const f of this.frames(entries)) this.line.send({ register: f });
  }

  private frames(entries: Entry[]): { objects: string[]; group?: string }[] {
    const byGroup = new Map<string, Entry[]>();
    for (const e of entries) {
      const members = byGroup.get(e.group);
      if (members) members.push(e);
      else byGroup.set(e.group, [e]);
    }
    const frames: { objects: string[]; group?: string }[] = [];
    for (const [group, members] of byGroup) {
      for (let i = 0; i < members.length; i += maxObjects) {
        frames.push({ objects: members.slice(i, i + maxObjects).map((e) => e.object), group });
      }
    }
    return frames;
  }

  private entry(group: string, object: string): Entry {
    const k = key(group, object);
    let e = this.entries.get(k);
    if (!e) {
      e = {
        group,
        object,
        wanted: false,
        status: "pending registration",
        version: "",
        handler: undefined,
        next: undefined,
        busy: false,
      };
      this.entries.set(k, e);
    }
    return e;
  }

  private restore(): void {
    const text = this.state.load();
    if (!text) return;
    let saved: { group: string; object: string; version: string }[];
    try {
      saved = (JSON.parse(text) as { registrations: typeof saved }).registrations;
    } catch {
      return; // lost state is what digests are for
    }
    for (const s of saved) {
      const e = this.entry(s.group, s.object);
      e.wanted = true;
      e.version = s.version;
      this.digest.add(s.group, s.object);
    }
  }

  private save(): void {
    const registrations = [...this.entries.values()]
      .filter((e) => e.wanted)
      .map(({ group, object, version }) => ({ group, object, version }));
    this.state.save(JSON.stringify({ registrations }));
  }
}

const key = (group: string, object: string) => `${group}\n${object}`;

const describe = ({ group, object, status, version }: Entry): Registration => ({ group, object, status, version });
