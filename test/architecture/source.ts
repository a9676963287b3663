// The source tree as the architecture tests see it.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT: string = fileURLToPath(new URL('../..', import.meta.url));

export interface SourceFile {
  /** Relative to the root. */
  readonly path: string;
  readonly text: string;
  /** The text with comments blanked, line breaks kept. */
  readonly code: string;
}

export function sources(folder: string): readonly SourceFile[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => {
      const full = join(entry.parentPath, entry.name);
      const text = readFileSync(full, 'utf8');
      return { path: relative(ROOT, full), text, code: withoutComments(text) };
    });
}

/** Good enough for our own style: no comment markers inside strings or regular expressions except behind a colon or quote. */
function withoutComments(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, ' '))
    .replace(/(^|[^:'"`\\])\/\/[^\n]*/gm, (_, before: string) => before);
}

/** Every module a file names: static, type-only, re-exported, dynamic, required. */
export function importsOf(file: SourceFile): readonly string[] {
  const found: string[] = [];
  const patterns = [
    /\bfrom\s*['"]([^'"\s]+)['"]/g,
    /(?<!['"`])\bimport\s*['"]([^'"]+)['"]/g,
    /\bimport\s*\(\s*['"`]([^'"`]+)['"`]/g,
    /\brequire\s*\(\s*['"`]([^'"`]+)['"`]/g,
  ];
  for (const pattern of patterns) for (const match of file.code.matchAll(pattern)) found.push(match[1] ?? '');
  return found;
}
