// How much a long test does: `npm run check` wants an answer within a minute, `npm test` wants all of it.

/** `full`, or under `npm run check` its `quick` part. */
export function effort(full: number, quick: number): number {
  return process.env['RIVULET_EFFORT'] === 'quick' ? quick : full;
}
