// Each operation has its own versions. A client asks for the highest that both sides speak, per operation, after Hello.

/** Versions `min` to `max` of one operation, both included. */
export interface VersionRange {
  readonly operation: number;
  readonly min: number;
  readonly max: number;
}

/** The highest version in both ranges; undefined: there is none. */
export function highestCommon(
  ours: { readonly min: number; readonly max: number },
  theirs: { readonly min: number; readonly max: number },
): number | undefined {
  const highest = Math.min(ours.max, theirs.max);
  return highest >= Math.max(ours.min, theirs.min) ? highest : undefined;
}

/** Version to use for each operation that both sides speak; the others are left out. */
export function negotiate(ours: readonly VersionRange[], theirs: readonly VersionRange[]): ReadonlyMap<number, number> {
  const told = new Map(theirs.map((range) => [range.operation, range]));
  const agreed = new Map<number, number>();
  for (const range of ours) {
    const other = told.get(range.operation);
    const version = other === undefined ? undefined : highestCommon(range, other);
    if (version !== undefined) agreed.set(range.operation, version);
  }
  return agreed;
}
