/** Whether a text is a name: of an app, recipient, notification, group, object or device. */
export function isName(text: string): boolean {
  return /^[A-Za-z0-9._:@+-]{1,128}$/.test(text) && !text.endsWith("\n");
}
