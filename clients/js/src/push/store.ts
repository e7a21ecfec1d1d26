// What page and service worker both need to know, in the one storage that both can reach: IndexedDB.

/** What is kept about this browser's subscription. */
export interface Kept {
  /** The Godwit server's URL. */
  server: string;
  app: string;
  /** The endpoint's id on the server, and the token that manages it. */
  id?: string;
  manageToken?: string;
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
const row = "subscription";

function request<T>(r: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    r.onsuccess = () => resolve(r.result);
    r.onerror = () => reject(r.error);
  });
}

async function within<T>(mode: IDBTransactionMode, work: (t: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const open = indexedDB.open(name, 1);
  open.onupgradeneeded = () => open.result.createObjectStore(table);
  const db = await request(open);
  try {
    return await request(work(db.transaction(table, mode).objectStore(table)));
  } finally {
    db.close();
  }
}

export async function load(): Promise<Kept | undefined> {
  return (await within("readonly", (t) => t.get(row))) as Kept | undefined;
}

export async function save(kept: Kept): Promise<void> {
  await within("readwrite", (t) => t.put(kept, row));
}

export async function forget(): Promise<void> {
  await within("readwrite", (t) => t.delete(row));
}
