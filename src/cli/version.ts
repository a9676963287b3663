declare const RIVULET_VERSION: string | undefined;

/** Put in by the bundler; a checkout that runs from source says so. */
export const VERSION: string = typeof RIVULET_VERSION === 'string' ? RIVULET_VERSION : 'development';
