/**
 * Spreads retries with full jitter: each wait is random between nothing and a bound that doubles, so that clients
 * which lost the server at once do not come back at once.
 */
export class Backoff {
  private n = 0;

  constructor(
    private readonly base: number,
    private readonly most: number,
  ) {}

  next(): number {
    const bound = Math.min(this.most, this.base * 2 ** Math.min(this.n++, 30));
    return Math.random() * bound;
  }

  reset(): void {
    this.n = 0;
  }
}

/** Waits; false if the signal ended it before. */
export function sleep(ms: number, signal?: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve(false);
      return;
    }
    const end = (whole: boolean) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", cut);
      resolve(whole);
    };
    const cut = () => end(false);
    // Browsers and Node take at most 2^31-1 ms; a token that lives longer is asked for again then.
    const timer = setTimeout(() => end(true), Math.min(ms, 2 ** 31 - 1));
    signal?.addEventListener("abort", cut);
  });
}
