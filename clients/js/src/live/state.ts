/** Where a text is kept: the registrations of a device with the versions that were handled, or the ids that were seen. */
export interface StateStore {
  /** What was saved last; undefined: nothing yet. */
  load(): string | undefined;
  save(text: string): void;
}

/** Keeps it as long as the program runs. */
export class MemoryState implements StateStore {
  private text: string | undefined;

  load(): string | undefined {
    return this.text;
  }

  save(text: string): void {
    this.text = text;
  }
}

/** Keeps it in localStorage, or whatever offers the same; a key each for what is kept. */
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
