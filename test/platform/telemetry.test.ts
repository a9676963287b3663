import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { openTelemetry, silentTelemetry } from '../../src/platform/telemetry.ts';

describe('openTelemetry', () => {
  it('writes one JSON line for each event, from its level on', () => {
    const output = new PassThrough();
    const telemetry = openTelemetry({ output, base: { nodeId: 7 }, level: 'info' });
    telemetry.log('debug', 'hidden');
    telemetry.log('warn', 'segment-rolled', { partition: 3, path: 'a\nb' });
    const lines = String(output.read()).trim().split('\n');
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      level: 'warn',
      nodeId: 7,
      event: 'segment-rolled',
      partition: 3,
      path: 'a\nb',
    });
  });

  it('counts, sets and observes by name and labels; asking twice gives the same metric', async () => {
    const telemetry = openTelemetry({ output: new PassThrough() });
    telemetry.counter('rivulet_a_total', 'help', { topic: 'x' }).add();
    telemetry.counter('rivulet_a_total', 'help', { topic: 'x' }).add(4);
    telemetry.counter('rivulet_a_total', 'help', { topic: 'y' }).add();
    expect(telemetry.gauge('rivulet_b', 'help')).toBe(telemetry.gauge('rivulet_b', 'help'));
    telemetry.gauge('rivulet_b', 'help').set(2.5);
    telemetry.histogram('rivulet_c_seconds', 'help').observe(0.003);
    let asked = 0;
    telemetry.observeGauge('rivulet_d', 'help', () => (asked += 1), { disk: '1' });
    telemetry.observeGauge('rivulet_d', 'help', () => 40, { disk: '2' });
    expect(asked).toBe(0);
    const text = await telemetry.metricsText();
    for (const line of [
      'rivulet_a_total{topic="x"} 5',
      'rivulet_a_total{topic="y"} 1',
      'rivulet_b 2.5',
      'rivulet_c_seconds_count 1',
      'rivulet_c_seconds_bucket{le="0.005"} 1',
      'rivulet_c_seconds_bucket{le="0.002"} 0',
      'rivulet_d{disk="1"} 1',
      'rivulet_d{disk="2"} 40',
    ]) {
      expect(text.split('\n')).toContain(line);
    }
  });

  it('two brokers in one process do not mix', async () => {
    const one = openTelemetry({ output: new PassThrough() });
    const two = openTelemetry({ output: new PassThrough() });
    one.counter('rivulet_a_total', 'help').add();
    expect(await two.metricsText()).not.toContain('rivulet_a_total');
  });
});

describe('silentTelemetry', () => {
  it('takes everything', () => {
    silentTelemetry.log('fatal', 'x');
    silentTelemetry.counter('a', 'b').add();
    silentTelemetry.observeGauge('a', 'b', () => 1);
  });
});
