export async function serve(_flags: unknown, _made: unknown, addonPath: () => string): Promise<void> { console.log(addonPath()); await Promise.resolve(); }
