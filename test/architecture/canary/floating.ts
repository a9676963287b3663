// Must be reported by the type-aware linter: when it is not, type-aware rules are off and lint proves nothing.
async function work(): Promise<void> {
  await Promise.resolve();
}
export function canary(): void {
  work();
}
