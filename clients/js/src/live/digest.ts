import { sha256 } from "./sha256.js";

/** What one object contributes: the first 8 bytes (big-endian) of SHA-256 of group, line feed, object. */
export function objectHash(group: string, object: string): bigint {
  const h = sha256(`${group}\n${object}`);
  return (BigInt(h[0] as number) << 32n) | BigInt(h[1] as number);
}

/** The digest of a set of objects: the sum of their hashes modulo 2^64, kept as objects come and go. */
export class Digest {
  private sum = 0n;

  add(group: string, object: string): void {
    this.sum = BigInt.asUintN(64, this.sum + objectHash(group, object));
  }

  remove(group: string, object: string): void {
    this.sum = BigInt.asUintN(64, this.sum - objectHash(group, object));
  }

  toString(): string {
    return this.sum.toString(16).padStart(16, "0");
  }
}
