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

const name = "godwit";
const table = "kept";
/** One row a concern: a row is read and written whole, in one transaction. */
type Row = "subscription" | "seen" | "unsent";

function request<T>(r: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    r.onsuccess = () => resolve(r.result);
    r.onerror = () => reject(r.error);
  });
}

async function within<T>(mode: IDBTransactionMode, work: (t: IDBObjectStore) => Promise<T>): Promise<T> {
  const open = indexedDB.open(name, 1);
  open.onupgradeneeded = () => open.result.createObjectStore(table);
  const db = await request(open);
  try {
    const transaction = db.transaction(table, mode);
    const done = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error);
    });
    done.catch(() => {}); // what went wrong is told by work, if it was that
    const result = await work(transaction.objectStore(table));
    await done;
    return result;
  } finally {
    db.close();
  }
}

/** What a row holds; undefined: nothing yet. */
export async function get<T>(row: Row): Promise<T | undefined> {
  return within("readonly", (t) => request<T | undefined>(t.get(row)));
}

/** Changes a row and returns what it held before. Page and worker wait for each other. */
export async function update<T>(row: Row, change: (before: T | undefined) => T): Promise<T | undefined> {
  return within("readwrite", async (t) => {
    const before = await request<T | undefined>(t.get(row));
    const after = change(before);
    if (after !== before) await request(t.put(after, row));
    return before;
  });
}

export async function load(): Promise<Kept | undefined> {
  return get<Kept>("subscription");
}

export async function save(kept: Kept): Promise<void> {
  await update<Kept>("subscription", () => kept);
}

/** Forgets the subscription, and with it what came by it. */
export async function forget(): Promise<void> {
  await within("readwrite", async (t) => {
    for (const row of ["subscription", "seen"] satisfies Row[]) await request(t.delete(row));
  });
}
