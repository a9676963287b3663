import type { Command } from 'commander';
export function addServeOptions(_made: Command): void {}
