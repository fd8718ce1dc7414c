import { readFileSync } from 'node:fs'
import { requestText, runLoad } from './load.ts'
import { startStack } from './stack.ts'
const cpu = (pid: number) => { const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' '); return (Number(f[11]) + Number(f[12])) * 10_000 }
const stack = await startStack()
try {
  const { apiKey, bare, api } = stack
  const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
  const record = { status: 200, headers: {}, body: { text: 'x'.repeat(1000) } }
  await fetch(`http://127.0.0.1:${bare.port}/set`, { method: 'PUT', headers, body: JSON.stringify({ key: 'replay', value: JSON.stringify({ cached: true, record }) }) })
  await fetch(`http://127.0.0.1:${api.port}/v1/record`, { method: 'PUT', headers, body: JSON.stringify({ scope: 'payments', key: 'replay', ...record }) })
  const body = '{"scope":"payments","key":"replay","ttlSeconds":86400}'
  let n = 0
  const kinds: [string, { port: number; pid: number }, () => string][] = [
    ['bare replay', bare, () => requestText('POST', '/get', headers, body)],
    ['api replay', api, () => requestText('POST', '/v1/record', headers, body)],
    ['bare acquire', bare, () => requestText('POST', '/same-size', headers, `{"scope":"p","key":"o-${n++}","ttlSeconds":86400}`)],
    ['api acquire', api, () => requestText('POST', '/v1/record', headers, `{"scope":"p","key":"o-${n++}","ttlSeconds":86400}`)],
  ]
  const rounds = Number(process.argv[2] ?? 5)
  const all: Record<string, number[]> = {}
  for (let r = -2; r < rounds; r++) for (const [name, server, request] of kinds) {
    const before = cpu(server.pid)
    const res = await runLoad({ port: server.port, connections: 64, durationMs: r < 0 ? 5000 : 2000, request })
    const per = (cpu(server.pid) - before) / res.requests
    if (r >= 0) (all[name] ??= []).push(per)
  }
  const med = (x: number[]) => x.toSorted((a, b) => a - b)[Math.floor(x.length / 2)]!
  for (const [name, x] of Object.entries(all)) console.log(name, med(x).toFixed(1), 'µs CPU/request', x.map((v) => v.toFixed(1)).join(' '))
  console.log('replay ratio', (med(all['bare replay']!) / med(all['api replay']!)).toFixed(2), 'acquire ratio', (med(all['bare acquire']!) / med(all['api acquire']!)).toFixed(2))
} finally { await stack.stop() }
