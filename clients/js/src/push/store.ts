// What page and service worker both need to know, in the one storage that both can reach: IndexedDB.

/** What is kept about this browser's subscription. */
export interface Kept {
  /** The Godwit server's URL. */
  server: string;
  app: string;
  /** The endpoint's id on the server, and the token that manages it. */
  id?: string;
  manageToken?: string;
  /** The scope whose service worker has the subscription. */
  scope?: string;
  /** The push service's URL of the subscription that the server knows. */
  address?: string;
  /** The server's public key the subscription was made with. */
  key?: string;
  tags?: string[];
  attributes?: Record<string, unknown>;
  /** When the server was last seen to know the endpoint: milliseconds. */
  checkedAt?: number;
}

/** One row a concern: a row is read and written whole, in one transaction. */
type Row = "subscription" | "seen" | "unsent";

/** Returns what a row holds, if anything, and changes it, if that is asked for. Page and worker wait for each other. */
export const update = async <T>(
  row: Row,
  change?: (before: T | undefined) => T | undefined,
): Promise<T | undefined> => {
  const open = indexedDB.open("godwit", 1);
  open.onupgradeneeded = () => open.result.createObjectStore("kept");
  await new Promise((resolve, reject) => {
    open.onsuccess = resolve;
    open.onerror = () => reject(open.error);
  });
  const transaction = open.result.transaction("kept", change ? "readwrite" : "readonly");
  open.result.close(); // when the transaction is over
  const rows = transaction.objectStore("kept");
  const read: IDBRequest<T | undefined> = rows.get(row);
  if (change) read.onsuccess = () => rows.put(change(read.result), row);
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(read.result);
    transaction.onabort = () => reject(transaction.error);
  });
};

export const load = (): Promise<Kept | undefined> => update("subscription");

export const save = (kept: Kept | undefined): Promise<unknown> => update("subscription", () => kept);
