import { describe, expect, test } from 'vitest';
import { leaderEpoch, offset } from '../../src/base/brands.ts';
import { ByteReader, ByteWriter } from '../../src/base/bytes.ts';
import { readEpochs, writeEpochs } from '../../src/format/epochs.ts';
import { EpochHistory, epochEntry } from '../../src/storage/epoch-history.ts';

describe('EpochHistory', () => {
  test('an epoch that begins where everything was removed takes the place of the one before', () => {
    const history = new EpochHistory([epochEntry(1, 0), epochEntry(2, 4)]);
    history.retain(offset(9));
    expect(history.entries).toEqual([epochEntry(2, 9)]);
    history.begin(leaderEpoch(3), offset(9));
    expect(history.entries).toEqual([epochEntry(3, 9)]);
  });

  test('whatever its life, what is written of it can be read back', () => {
    const history = new EpochHistory();
    let at = 0;
    for (let epoch = 1; epoch < 200; epoch += 1) {
      history.begin(leaderEpoch(epoch), offset(at));
      at += epoch % 3;
      if (epoch % 5 === 0) history.retain(offset(at));
      if (epoch % 7 === 0) history.truncate(offset(Math.max(history.entries[0]?.startOffset ?? 0, at - 2)));
      at = Math.max(at, history.entries.at(-1)?.startOffset ?? 0);
      const writer = new ByteWriter(4 + 12 * history.entries.length);
      writeEpochs(writer, history.entries);
      expect(readEpochs(new ByteReader(writer.finish()))).toEqual(history.entries);
    }
  });
});
