/** A token, or where tokens come from: asked at every connect, and again when nine tenths of a token's life are over. */
export type TokenSource = string | (() => string | Promise<string>);

export async function getToken(source: TokenSource | undefined): Promise<string | undefined> {
  return typeof source === "function" ? await source() : source;
}

/**
 * In how many milliseconds to ask for the token after this one; undefined: never. The signature is not checked: the
 * server does that, here only the time is wanted.
 */
export function renewIn(token: string | undefined, now: number): number | undefined {
  const payload = token?.split(".")[1];
  if (!payload) return undefined;
  try {
    const claims = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/"))) as { exp?: unknown };
    const left = typeof claims.exp === "number" ? claims.exp * 1_000 - now : 0;
    return left > 0 ? left * 0.9 : undefined;
  } catch {
    return undefined; // an opaque token
  }
}
