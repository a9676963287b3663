// Before each test file.
import fc from 'fast-check';
import { effort } from './effort.ts';

fc.configureGlobal({ numRuns: effort(100, 25) });
