import * as http from 'node:http';
import * as net from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listenAdmin, type AdminListener } from '../../src/host/admin-http.ts';

let listener: AdminListener;
let healthy = true;
beforeEach(async () => {
  healthy = true;
  listener = await listenAdmin(
    { host: '127.0.0.1', port: 0 },
    {
      metricsText: () => (healthy ? Promise.resolve('rivulet_x_total 1\n') : Promise.reject(new Error('no figures'))),
      metricsContentType: 'text/plain; version=0.0.4; charset=utf-8',
      healthy: () => ({ ok: healthy, detail: { syncStuckMs: 7 } }),
      ready: () => ({ ok: false, detail: { state: 'recovering' } }),
    },
  );
});
afterEach(() => listener.close());

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

function ask(route: string, options: http.RequestOptions = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: '127.0.0.1', port: listener.address.port, path: route, ...options },
      (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (text: string) => {
          body += text;
        });
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '', body });
        });
      },
    );
    request.on('error', reject);
    request.end();
  });
}

describe('listenAdmin', () => {
  it('gives metrics and both states, with a status that says what to do', async () => {
    expect(await ask('/metrics')).toEqual({
      status: 200,
      type: 'text/plain; version=0.0.4; charset=utf-8',
      body: 'rivulet_x_total 1\n',
    });
    expect(await ask('/healthz?verbose')).toMatchObject({ status: 200, body: '{"ok":true,"syncStuckMs":7}\n' });
    expect(await ask('/readyz')).toMatchObject({ status: 503, body: '{"ok":false,"state":"recovering"}\n' });
    healthy = false;
    expect(await ask('/healthz')).toMatchObject({ status: 503 });
    expect(await ask('/metrics')).toMatchObject({ status: 500, body: 'no figures\n' });
  });

  it('answers nothing else, and not to a foreign name', async () => {
    expect((await ask('/')).status).toBe(404);
    expect((await ask('/metrics', { method: 'POST' })).status).toBe(405);
    expect((await ask('/metrics', { headers: { host: 'evil.example.com' } })).status).toBe(421);
    expect((await ask('/metrics', { headers: { host: 'localhost:9401' } })).status).toBe(200);
  });

  it('closes on oversized headers and on garbage, and goes on', async () => {
    for (const bytes of [`GET /metrics HTTP/1.1\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`, '\0\0\0\0garbage\r\n\r\n']) {
      await new Promise<void>((resolve) => {
        const socket = net.connect(listener.address.port, '127.0.0.1', () => socket.write(bytes));
        socket.on('error', () => undefined);
        socket.on('data', () => undefined);
        socket.on('close', () => {
          resolve();
        });
      });
    }
    expect((await ask('/metrics')).status).toBe(200);
  });

  it('close ends idle connections too', async () => {
    const socket = net.connect(listener.address.port, '127.0.0.1');
    await new Promise<void>((resolve) => {
      socket.once('connect', resolve);
    });
    const closed = new Promise<void>((resolve) => {
      socket.once('close', () => {
        resolve();
      });
    });
    socket.on('error', () => undefined);
    await listener.close();
    await closed;
  });
});
