// How bytes and texts travel.

/** Whether a content type is JSON. */
export function isJSON(contentType: string): boolean {
  const base = (contentType.split(";")[0] ?? "").trim();
  return base === "application/json" || base.endsWith("+json");
}

export function bytesFromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function base64FromBytes(bytes: Uint8Array): string {
  let text = "";
  for (const b of bytes) text += String.fromCharCode(b);
  return btoa(text);
}
