import { defineConfig, type ViteUserConfig } from 'vitest/config';

const config: ViteUserConfig = defineConfig({
  root: new URL('..', import.meta.url).pathname,
  test: {
    pool: 'forks',
    setupFiles: ['test/setup.ts'],
    experimental: { fsModuleCache: true, fsModuleCachePath: 'node_modules/.vitest-modules' },
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    teardownTimeout: 20_000,
    include: ['test/**/*.test.ts'],
  },
});
export default config;
