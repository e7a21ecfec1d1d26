/** Where the registrations of a device are kept, and which versions were handled. */
export interface StateStore {
  /** What was saved last; undefined: nothing yet. */
  load(): string | undefined;
  save(text: string): void;
}

/** Keeps registrations as long as the program runs. */
export class MemoryState implements StateStore {
  private text: string | undefined;

  load(): string | undefined {
    return this.text;
  }

  save(text: string): void {
    this.text = text;
  }
}

/** Keeps registrations in localStorage, or whatever offers the same. */
export class StorageState implements StateStore {
  constructor(
    private readonly storage: Pick<Storage, "getItem" | "setItem">,
    private readonly key = "godwit-registrations",
  ) {}

  load(): string | undefined {
    return this.storage.getItem(this.key) ?? undefined;
  }

  save(text: string): void {
    this.storage.setItem(this.key, text);
  }
}
