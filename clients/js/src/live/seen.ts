/** Remembers the newest ids that were put in, up to a number, so as to know a redelivery when it comes. */
export class SeenIds {
  private readonly ids = new Set<string>();

  constructor(private readonly most: number) {}

  has(id: string): boolean {
    return this.ids.has(id);
  }

  add(id: string): void {
    if (this.ids.has(id)) return;
    this.ids.add(id);
    if (this.ids.size <= this.most) return;
    for (const oldest of this.ids) {
      this.ids.delete(oldest); // a Set keeps the order of arrival
      return;
    }
  }
}
