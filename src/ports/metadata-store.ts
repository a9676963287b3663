/** One change of the applied image; `value` undefined removes the key. */
export interface StoreChange {
  readonly key: string;
  readonly value: Uint8Array | undefined;
}

/** What `load` found. `damaged`: set aside by the store itself (renamed, never deleted), to be rebuilt from the log. */
export type LoadedStore =
  | { readonly kind: 'ok'; readonly appliedIndex: number; readonly entries: ReadonlyMap<string, Uint8Array> }
  | { readonly kind: 'empty' }
  | { readonly kind: 'damaged'; readonly reason: string; readonly movedTo: string | undefined };

/**
 * The applied metadata image on disk: a cache of what the metadata log says, never the truth. Nothing is acknowledged
 * because of it. Values carry their own checksum inside the store.
 */
export interface MetadataStore {
  /** Once, first. */
  load(): Promise<LoadedStore>;
  /** All changes and the index in one transaction. After it rejected, the store must not be used any more. */
  apply(appliedIndex: number, changes: readonly StoreChange[]): Promise<void>;
  /** Replaces everything, in one transaction. */
  replace(appliedIndex: number, entries: ReadonlyMap<string, Uint8Array>): Promise<void>;
  close(): Promise<void>;
}
