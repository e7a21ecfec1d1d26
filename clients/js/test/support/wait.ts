/** Asks again and again until the answer is true; what it threw last is the reason of giving up. */
export async function eventually(
  what: string,
  ask: () => boolean | Promise<boolean>,
  patience = 60_000,
): Promise<void> {
  const end = Date.now() + patience;
  let last: unknown;
  while (Date.now() < end) {
    try {
      if (await ask()) return;
      last = undefined;
    } catch (error) {
      last = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${what}: not within ${patience} ms`, { cause: last });
}
