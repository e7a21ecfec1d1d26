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

/** One row a concern: a row is read and written whole, in one transaction. "seen" has one for each worker's scope as well. */
type Row = "subscription" | "seen" | "unsent" | `seen ${string}`;

/** How long storage and browser may take, in milliseconds: WebKit's IndexedDB has been seen to hang for ever. */
const patience = 3000;

/** What a promise brings, or an error where it brings nothing in time. */
export const soon = <T>(promise: Promise<T>): Promise<T> =>
  Promise.race([promise, new Promise<never>((_, no) => setTimeout(no, patience, Error("hangs")))]);

/** Returns what a row holds, if anything, and changes it, if that is asked for. Page and worker wait for each other. */
export const update = <T>(row: Row, change?: (before: T | undefined) => T | undefined): Promise<T | undefined> =>
  soon(transact(row, change));

/** Waits for a request or a transaction. */
const done = (of: IDBRequest | IDBTransaction) =>
  new Promise((resolve, reject) => {
    const any = of as IDBRequest & IDBTransaction;
    any.onsuccess = any.oncomplete = resolve;
    any.onerror = any.onabort = () => reject(any.error);
  });

const transact = async <T>(row: Row, change?: (before: T | undefined) => T | undefined): Promise<T | undefined> => {
  const open = indexedDB.open("godwit", 1);
  open.onupgradeneeded = () => open.result.createObjectStore("kept");
  await done(open);
  const transaction = open.result.transaction("kept", "readwrite");
  open.result.close(); // when the transaction is over
  const rows = transaction.objectStore("kept");
  const read: IDBRequest<T | undefined> = rows.get(row);
  if (change) read.onsuccess = () => rows.put(change(read.result), row);
  await done(transaction);
  return read.result;
};

/** What is kept, one for each app of each server. An earlier version kept one for the whole origin. */
export const all = async (): Promise<Kept[]> => listed(await update<Kept | Kept[]>("subscription"));

const listed = (kept: Kept | Kept[] = []) => [kept].flat();

/** Keeps something about a server's app in the place of what was kept about it; nothing: forgets that. */
export const save = ({ server, app }: Kept, ...kept: Kept[]): Promise<unknown> =>
  update<Kept | Kept[]>("subscription", (before) => [
    ...listed(before).filter((k) => k.server !== server || k.app !== app),
    ...kept,
  ]);
