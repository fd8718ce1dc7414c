import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { configTable } from '#internal/config/index.ts'
import { latchkey } from '#test/support/processes/latchkey.ts'
import { parseCapturedCall } from './captured-call.ts'
import { providerTemplate } from './provider-template.ts'

const shippedFolder = join(import.meta.dir, '../../config/providers')
const shipped = readdirSync(shippedFolder)
  .filter((file) => file.endsWith('.yaml'))
  .toSorted()
const secret = 'a-secret-for-tests'
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'latchkey-providers-'))
  writeFileSync(join(folder, 'acme.yaml'), providerTemplate('acme'))
  writeFileSync(join(folder, 'secret'), `${secret}\n`)
})
afterAll(() => rmSync(folder, { recursive: true }))

async function run(...args: readonly string[]) {
  const { code, out, err } = await latchkey(['providers', ...args], {})
  return { code, out: out.trimEnd(), err: err.trimEnd() }
}

function write(name: string, content: string | object): string {
  const path = join(folder, name)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

/** Returns headers and body of the vector of the template. */
function templateCall() {
  const text = providerTemplate('acme')
  const [, signature = ''] = /X-Signature: (\w{64})/.exec(text) ?? []
  const [, body = ''] = /body: '(.*)'/.exec(text) ?? []
  return { headers: { 'X-Signature': signature }, body, at: '2026-01-31T09:00:00Z' }
}

test('providers list, show: every shipped declaration is listed, and `providers lint` accepts the text that `show` prints', async () => {
  const { code, out } = await run('list', '--json')
  const listed: { name: string; isVerified: boolean }[] = JSON.parse(out)
  expect({ code, names: listed.map(({ name }) => `${name}.yaml`) }).toEqual({
    code: 0,
    names: shipped,
  })
  expect(listed.find(({ name }) => name === 'slack')?.isVerified).toBe(true)
  expect(listed.find(({ name }) => name === 'zoom')?.isVerified).toBe(false)
  const shown = await run('show', 'azure-event-grid')
  expect(await run('lint', write('shown.yaml', shown.out))).toMatchObject({ code: 0 })
  expect(shown.out).toContain('name: azureeventgrid')
})

test('providers show: an unknown name ends with exit code 3', async () => {
  expect(await run('show', 'nobody')).toMatchObject({
    code: 3,
    err: 'No declaration nobody is shipped: run latchkey providers list. A Provider of your own is in its own file',
  })
})

test('providers new: writes a declaration whose test vector passes, and overwrites no file', async () => {
  const path = join(folder, 'fresh.yaml')
  expect((await run('new', 'fresh', '--file', path)).code).toBe(0)
  expect(await run('lint', path)).toMatchObject({ code: 0, out: `${path}: no problem` })
  const tested = await run('test', path)
  expect(tested).toMatchObject({
    code: 0,
    out: 'invoice paid: holds, and the calls derived from it are refused',
  })
  const before = readFileSync(path, 'utf8')
  expect(await run('new', 'fresh', '--file', path)).toMatchObject({ code: 2, err: `${path} already exists` })
  expect(readFileSync(path, 'utf8')).toBe(before)
})

test('providers new: refuses a name that cannot be part of a URL', async () => {
  const { code, err } = await run('new', 'Acme Pay', '--file', join(folder, 'none.yaml'))
  expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining('metadata.name must match') })
  expect(readdirSync(folder)).not.toContain('none.yaml')
})

test('providers lint: names file and line of each problem', async () => {
  const text = providerTemplate('acme')
    .replace('encoding: hex', 'encoding: hexx')
    .replace('json: id', 'jsn: id')
  const path = write('wrong.yaml', text)
  const lineOf = (part: string) => text.split('\n').findIndex((line) => line.includes(part)) + 1
  const { code, err } = await run('lint', path)
  expect(code).toBe(1)
  expect(err).toContain(`${path}:${lineOf('hexx')}: spec.signature.schemes[0].encoding must be one of`)
  expect(err).toContain(`${path}:${lineOf('jsn')}: spec.event.id[0].jsn is not a field`)
})

test.each([
  ['text that is not YAML', 'a: [', 'is not YAML at column'],
  ['an empty file', '', 'must have one YAML document'],
  ['two documents', 'a: 1\n---\nb: 1\n', 'must have one YAML document'],
  ['another kind', 'apiVersion: v1\nkind: Secret\n', ':2: kind must be'],
])('providers lint: refuses %s', async (_name, text, message) => {
  const { code, err } = await run('lint', write('other.yaml', text))
  expect(code).toBe(1)
  expect(err).toContain(message)
})

test('providers test: reports a test vector that fails', async () => {
  const path = write('false.yaml', providerTemplate('acme').replace('id: evt_1', 'id: evt_2'))
  const { code, err } = await run('test', path)
  expect(code).toBe(1)
  expect(err).toContain(`${path}:49: spec.vectors[0].expect (invoice paid) does not hold: id is evt_1`)
})

test('providers test: accepts the test vectors of every shipped declaration', async () => {
  for (const file of shipped.slice(0, 5))
    expect(await run('test', join(shippedFolder, file))).toMatchObject({ code: 0 })
})

test('providers test --call: shows the verification steps of a valid call, and never the secret', async () => {
  const call = templateCall()
  const args = [join(folder, 'acme.yaml'), '--call', write('call.json', call)]
  const { code, out, err } = await run('test', ...args, '--secret-file', join(folder, 'secret'))
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toContain(`computed         ${call.headers['X-Signature']}`)
  expect(out).toContain('event evt_1 of type invoice.paid')
  expect(out).not.toContain(secret)
})

test('providers test --keys-file: verifies a call with the vendor’s key set from the file, without fetching it', async () => {
  const file = join(shippedFolder, 'googlepubsub.yaml')
  const { spec } = parse(readFileSync(file, 'utf8'))
  const [{ secrets, at, url, headers, body, fetched }] = spec.vectors
  const call = write('push.json', { headers, body, at, url })
  const secretFile = write('account', secrets[1])
  const without = await run('test', file, '--call', call, '--secret-file', secretFile)
  expect(without).toMatchObject({ code: 1 })
  expect(without.err).toContain(
    'give the keys that the vendor publishes at https://www.googleapis.com/oauth2/v3/certs',
  )
  const keysFile = write('keys.json', fetched[0].text)
  const args = ['--call', call, '--secret-file', secretFile, '--keys-file', keysFile]
  const { code, out } = await run('test', file, ...args)
  expect({
    code,
    isEvent: out.includes('event 2070443601311540 of type googlepubsub.object_finalize'),
  }).toEqual({
    code: 0,
    isEvent: true,
  })
})

test('providers test --call: ends with exit code 1 and shows both signatures where they differ', async () => {
  const call = templateCall()
  const path = write('changed.json', { ...call, body: `${call.body} ` })
  const args = [join(folder, 'acme.yaml'), '--call', path, '--secret-file', join(folder, 'secret')]
  const { code, err } = await run('test', ...args)
  expect(code).toBe(1)
  expect(err).toContain('refused: signature_mismatch')
  const json = JSON.parse((await run('test', ...args, '--json')).out)
  expect(json.signatures.texts).toEqual([call.headers['X-Signature']])
  expect(json.computed).not.toEqual(json.signatures.texts)
})

test.each([
  ['no JSON', 'x', 'is not JSON'],
  ['an unknown member', { headers: {}, boddy: '' }, '/boddy'],
  ['a time of another form', { headers: {}, at: 'today' }, 'must have a time such as'],
  ['a header whose name HTTP refuses', { headers: { 'X Signature': 'a' } }, 'header: X Signature'],
  ['a header whose value HTTP refuses', { headers: { 'X-Signature': 'a\nb' } }, 'header: X-Signature'],
  ['both bodies', { headers: {}, body: 'a', bodyBase64: 'YQ==' }, 'must not have both body and bodyBase64'],
  ['a body that is not base64', { headers: {}, bodyBase64: 'a-b' }, 'must have base64 in bodyBase64'],
])('providers test --call: refuses a captured call with %s', async (_name, content, message) => {
  const args = [join(folder, 'acme.yaml'), '--call', write('bad.json', content)]
  const { code, err } = await run('test', ...args, '--secret-file', join(folder, 'secret'))
  expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(message) })
})

test('providers test --call: without a terminal, asks for a secret file', async () => {
  const { code, err } = await run(
    'test',
    join(folder, 'acme.yaml'),
    '--call',
    write('c.json', templateCall()),
  )
  expect({ code, err }).toEqual({ code: 2, err: 'Give the secret of the call in --secret-file' })
})

test.each([
  ['latchkey', 'is reserved for notifications'],
  ['payment', 'a word of event types'],
  ['stripe', 'a built-in provider'],
])('providers new, lint: refuse the reserved name %s', async (name, why) => {
  const made = await run('new', name, '--file', join(folder, `${name}.yaml`))
  expect(made).toMatchObject({ code: 2, err: expect.stringContaining(why) })
  const path = write('reserved.yaml', providerTemplate(name))
  const { code, err } = await run('lint', path)
  expect({ code, err }).toEqual({
    code: 1,
    err: expect.stringMatching(new RegExp(`:\\d+: metadata.name is ${name}, `)),
  })
})

test('providers lint: refuses a file over 1 MiB by its size, without parsing it', async () => {
  const path = write('long.yaml', `${providerTemplate('acme')}#${'x'.repeat(1024 * 1024)}\n`)
  expect(await run('lint', path)).toMatchObject({ code: 2, err: `${path} has more than 1048576 bytes` })
})

test('maximum age of a signature: the CLI and the setting have the same default', () => {
  const call = parseCapturedCall('call.json', '{"headers":{}}', 0)
  const [, seconds] = /SIGNATURE_MAX_AGE_SECONDS` \| [^|]+ \| `?(\d+)/.exec(configTable()) ?? []
  expect(call).toMatchObject({ signatureAgeMsMax: Number(seconds) * 1000 })
})

test('providers: the error for a missing file names the file', async () => {
  const path = join(folder, 'missing.yaml')
  expect(await run('lint', path)).toMatchObject({ code: 2, err: `${path} could not be read: ENOENT` })
})

test('providers lint: prints a note with the line of a type outside the catalogue, and still ends with exit code 0', async () => {
  const text = providerTemplate('acme').replace('type: invoice.paid }', 'type: invoce.paid }')
  const path = write(
    'noted.yaml',
    text.replace('        type: invoice.paid\n', '        type: invoce.paid\n'),
  )
  const line = text.split('\n').findIndex((each) => each.includes('invoce.paid }')) + 1
  const { code, out } = await run('lint', path)
  expect({ code, out }).toEqual({
    code: 0,
    out: `note: ${path}:${line}: spec.types[0].type is invoce.paid, which is not in the catalogue of event types: did you mean invoice.paid?\n${path}: no problem`,
  })
})

test('providers test: when a test vector fails, also lists the vectors that pass', async () => {
  const text = providerTemplate('acme')
  const second = text
    .slice(text.indexOf('    - name: invoice paid'))
    .replace('name: invoice paid', 'name: again')
  const path = write('half.yaml', text + second.replace('id: evt_1', 'id: evt_2'))
  const { code, err } = await run('test', path)
  expect(code).toBe(1)
  expect(err).toContain('spec.vectors[1].expect (again) does not hold: id is evt_1')
  expect(err).toContain('invoice paid: holds, and the calls derived from it are refused')
})

test('providers new: the error for a missing folder names the folder', async () => {
  const missing = join(folder, 'no/where')
  const made = await run('new', 'acme', '--file', join(missing, 'acme.yaml'))
  expect(made).toMatchObject({ code: 2, err: `The folder ${missing} does not exist: mkdir -p ${missing}` })
})

test('providers new: the error for a name that cannot be part of a URL does not mention a file line, because no file was written', async () => {
  const { err } = await run('new', 'Acme', '--file', join(folder, 'none.yaml'))
  expect(err).toStartWith('metadata.name must match')
})

test('providers test --call: shows a newline in the signed text as an escape', async () => {
  const text = providerTemplate('acme').replace("signs: '{body}'", 'signs: "{method}\\n{body}"')
  const args = ['--call', write('line.json', templateCall()), '--secret-file', join(folder, 'secret')]
  const { err } = await run('test', write('line.yaml', text), ...args)
  expect(err).toContain('bytes: POST\\n{"id":"evt_1"')
})
