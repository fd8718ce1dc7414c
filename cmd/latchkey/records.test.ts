import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { dashboardKey } from '#test/support/dashboard/backoffice-tenants.ts'
import { type CommandLab, startCommandLab } from '#test/support/processes/command-lab.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { until } from '#test/support/until.ts'

let lab: CommandLab
beforeAll(async () => {
  lab = await startCommandLab()
}, 30_000)
afterAll(() => lab.close())

const call = (method: string, body: object) =>
  lab.api.call(method, '/v1/record', body, { Authorization: `Bearer ${dashboardKey('acme')}` })
const body = '{"id":820982911946154508,"name":"ü"}'

/** Saves a response of acme under a new key. */
async function save(): Promise<readonly [scope: string, key: string]> {
  const [scope, key] = ['orders', crypto.randomUUID()]
  const text = `{"scope":"${scope}","key":"${key}","status":201,"headers":{"location":"/1"},"body":${body}}`
  const saved = await lab.api.call('PUT', '/v1/record', text, {
    Authorization: `Bearer ${dashboardKey('acme')}`,
  })
  expect(saved.status).toBe(200)
  return [scope, key]
}

describe('latchkey records get', () => {
  test('latchkey records get: prints the saved response as received', async () => {
    const address = await save()
    expect(await lab.run('records', 'get', ...address)).toEqual({
      code: 0,
      err: '',
      out: `status    201\nlocation  /1\n\n${body}\n`,
    })
    const { out } = await lab.run('records', 'get', ...address, '--json')
    expect(out).toBe(`{"status":201,"headers":{"location":"/1"},"body":${body}}\n`)
  })

  test('latchkey records get: without a response ends with code 3, also while the key is locked', async () => {
    const key = crypto.randomUUID()
    await call('POST', { scope: 'orders', key })
    const { code, out, err } = await lab.run('records', 'get', 'orders', key)
    expect({ code, out }).toEqual({ code: 3, out: '' })
    expect(err).toStartWith(
      'No response is saved under this scope and key. An attempt may run, or have ended',
    )
    expect(err).not.toContain('middleware')
  })

  test.each([
    ['order-1', true],
    ['-:order-1', false],
    [`${'_'.repeat(22)}:order-1`, false],
  ])(
    'latchkey records get: for %s of a route, suggests the key of the middleware: %p',
    async (key, hints) => {
      const { code, err } = await lab.run('records', 'get', 'POST /nothing-saved', '--', key)
      expect([code, err.includes(`-:${key} for the principal 'none'`)]).toEqual([3, hints])
    },
  )

  test('latchkey records get: with a key of another scope ends with code 4', async () => {
    expect(await latchkey(['records', 'get', 'a', 'b'], lab.env('reader'))).toMatchObject({
      code: 4,
      out: '',
    })
  })
})

describe('latchkey records save', () => {
  test('latchkey records save: after confirmation, saves the response of an unfinished attempt once', async () => {
    const key = crypto.randomUUID()
    await call('POST', { scope: 'orders', key, lockSeconds: 1 })
    const run = (...flags: string[]) => lab.run('records', 'save', 'orders', key, '{"id":"ch_1"}', ...flags)
    expect(await run()).toMatchObject({ code: 2, err: expect.stringContaining('confirm with --yes') })
    expect(await run('--yes')).toMatchObject({
      code: 1,
      err: expect.stringContaining('An attempt holds the lock'),
    })
    await until('the lock ends', async () => {
      const { code, out } = await run('--yes', '--status', '201')
      return code === 0 && out === 'The response is saved: in place of an attempt that ended without one\n'
    })
    expect((await lab.run('records', 'get', 'orders', key)).out).toBe('status  201\n\n{"id":"ch_1"}\n')
    expect(await run('--yes')).toMatchObject({ code: 1, err: expect.stringContaining('saved already') })
  })

  test('latchkey records save: a body that is not JSON is reported as a usage error', async () => {
    expect(await lab.run('records', 'save', 'a', 'b', '{id}', '--yes')).toMatchObject({ code: 2, out: '' })
  })
})

describe('latchkey records release', () => {
  test('latchkey records release --lock-token: releases only the lock with this token', async () => {
    const key = crypto.randomUUID()
    const { lockToken } = (await call('POST', { scope: 'orders', key })).json as { lockToken: string }
    const release = (token: string) => lab.run('records', 'release', 'orders', key, '--lock-token', token)
    expect(await release('another')).toMatchObject({ code: 3, out: '' })
    expect(await release(lockToken)).toEqual({ code: 0, out: 'The lock is released\n', err: '' })
    expect((await call('POST', { scope: 'orders', key })).json).toMatchObject({ locked: true })
  })

  test('latchkey records release: removes a response after confirmation, or with --yes', async () => {
    const address = await save()
    const release = ['records', 'release', ...address]
    expect(await lab.run(...release)).toMatchObject({
      code: 2,
      err: expect.stringContaining('confirm with --yes'),
    })
    const ask = (text: string) => latchkey(release, lab.env(), { ask: () => Promise.resolve(text) })
    expect(await ask('n')).toEqual({ code: 1, out: '', err: 'Nothing was done\n' })
    expect((await lab.run('records', 'get', ...address)).code).toBe(0)
    expect(await ask('Y')).toMatchObject({ code: 0, out: 'The response is removed\n' })
    expect(await lab.run(...release, '--yes')).toMatchObject({ code: 3, out: '' })
  })
})
