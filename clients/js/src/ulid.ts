const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** An id that sorts by time: 48 bits of milliseconds and 80 random bits (github.com/ulid/spec). */
export function ulid(now = Date.now()): string {
  let text = "";
  for (let i = 0, rest = now; i < 10; i++, rest = Math.floor(rest / 32)) text = alphabet.charAt(rest % 32) + text;
  for (const b of crypto.getRandomValues(new Uint8Array(16))) text += alphabet.charAt(b % 32);
  return text;
}
