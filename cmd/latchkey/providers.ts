import { writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { stringify } from 'yaml'
import { findShipped, runVectors, shippedNames, traceCall } from '#internal/providers/index.ts'
import { tenantApiVersion } from '#internal/tenants/index.ts'
import { parseCapturedCall, traceText } from './captured-call.ts'
import { type Cli, exitCodes, jsonOption, type Problem, type Program, type Result } from './cli.ts'
import { capturedCallBytesMax, parseProviderFile, type ReadProvider, readText } from './provider-file.ts'
import { providerTemplate } from './provider-template.ts'
import type { Columns } from './tables.ts'

const testHelp = `
The file of --call is JSON: {"headers":{"X-Signature":"…"},"body":"…"}, with bodyBase64 in place of body
for bytes, and with method, url and at (its time) if they are signed. The secret is read from
--secret-file, or asked for; it is never printed. The output has the signature that the secret makes.`

export function addProvidersCommand(program: Program, cli: Cli): void {
  const providers = program.command('providers').description('the providers whose webhooks are accepted')
  providers
    .command('list')
    .description(
      'lists the declarations that are shipped with this version, which tenants use by name; not your own',
    )
    .option(...jsonOption)
    .action(cli.action(async (options) => cli.answer(list(cli), options)))
  providers
    .command('show')
    .description('prints a shipped declaration as a Provider, as a starting point')
    .argument('<name>', 'name of the provider, or an alias')
    .option(...jsonOption)
    .action(cli.action(async (name, options) => cli.answer(show(name), options)))
  providers
    .command('lint')
    .description('checks declarations, and names the line of each problem')
    .argument('<file...>', 'declarations of providers in YAML')
    .option(...jsonOption)
    .action(cli.action(async (files, options) => cli.answer(await lint(files), options)))
  providers
    .command('test')
    .description('runs the vectors of a declaration, or verifies a captured call step by step')
    .addHelpText('after', testHelp)
    .argument('<file>', 'declaration of a provider in YAML')
    .option('--call <file>', 'captured call to verify')
    .option('--secret-file <file>', 'file with the secret of the captured call')
    .option('--keys-file <file>', 'file with the key set or certificate that the vendor publishes')
    .option(...jsonOption)
    .action(cli.action(async (file, options) => cli.answer(await testFile(cli, file, options), options)))
  providers
    .command('new')
    .description('writes the start of a declaration, whose comments say what to change')
    .argument('<name>', 'name of the provider, as in its URL')
    .option('--file <path>', 'file to write; default: <name>.yaml')
    .option(...jsonOption)
    .action(cli.action(async (name, options) => cli.answer(await create(name, options.file), options)))
}

function list({ tables }: Cli): Result {
  const declared = shippedNames.flatMap((name) => {
    const shipped = findShipped(name)
    if (shipped === undefined) return []
    const { title = name } = JSON.parse(shipped.text) as { readonly title?: string }
    return [{ name, title, aliases: shipped.aliases, isVerified: !shipped.isUnverified }]
  })
  const columns: Columns<(typeof declared)[number]> = {
    NAME: 'name',
    VENDOR: 'title',
    STATE: ({ isVerified }) => (isVerified ? 'verified' : 'unverified'),
    ALIASES: ({ aliases }) => aliases.join(', '),
  }
  return { text: tables.list(declared, columns, 'No declarations'), json: declared }
}

function show(name: string): Result {
  const shipped = findShipped(name)
  if (shipped === undefined)
    return {
      problem: `No declaration ${name} is shipped: run latchkey providers list. A Provider of your own is in its own file`,
      exitCode: exitCodes.notFound,
    }
  const {
    name: _name,
    samples: _samples,
    ...spec
  } = JSON.parse(shipped.text) as { readonly title?: string } & {
    readonly name?: string
    readonly samples?: unknown
  }
  const resource = { apiVersion: tenantApiVersion, kind: 'Provider', metadata: { name: shipped.name }, spec }
  return { text: stringify(resource, { lineWidth: 120 }).trimEnd(), json: resource }
}

async function lint(files: readonly string[]): Promise<Result> {
  const problems: string[] = []
  const notes: string[] = []
  for (const file of files) {
    const text = await readText(file)
    if (typeof text !== 'string') return text
    const parsed = parseProviderFile(file, text)
    if (parsed.kind === 'invalid') problems.push(...parsed.problems)
    else notes.push(...parsed.notes)
  }
  const noted = notes.map((each) => `note: ${each}`)
  if (problems.length > 0) return { problem: [...problems, ...noted].join('\n'), json: { problems, notes } }
  return { text: [...noted, `${files.join(', ')}: no problem`].join('\n'), json: { problems, notes } }
}

async function testFile(
  cli: Cli,
  file: string,
  {
    call: callFile,
    secretFile,
    keysFile,
  }: {
    readonly call?: string | undefined
    readonly secretFile?: string | undefined
    readonly keysFile?: string | undefined
  },
): Promise<Result> {
  const text = await readText(file)
  if (typeof text !== 'string') return text
  const parsed = parseProviderFile(file, text)
  if (parsed.kind === 'invalid')
    return { problem: parsed.problems.join('\n'), json: { problems: parsed.problems } }
  const { declaration } = parsed
  if (callFile === undefined) return testVectors(file, parsed)
  const callText = await readText(callFile, capturedCallBytesMax)
  if (typeof callText !== 'string') return callText
  const call = parseCapturedCall(callFile, callText, cli.clock.now())
  if ('problem' in call) return call
  const secret = await readSecret(cli, secretFile)
  if (typeof secret !== 'string') return secret
  const published = keysFile === undefined ? undefined : await readText(keysFile)
  if (typeof published === 'object') return published
  const trace = traceCall(declaration, call, [secret], published)
  const shown = { text: traceText(trace), json: trace }
  const isAccepted = ['event', 'answered', 'confirms'].includes(trace.outcome.kind)
  return isAccepted ? shown : { problem: shown.text, json: trace }
}

/** Returns a line for each problem, and for each vector that holds. */
function testVectors(
  file: string,
  { declaration, lineOf }: Extract<ReadProvider, { readonly kind: 'ok' }>,
): Result {
  const { vectors = [] } = declaration
  const found = runVectors(declaration)
  const problems = found.map(({ path, message }) => lineOf({ path: `spec.${path}`, message }))
  const names = vectors.map(({ name }) => name)
  const holding = names.filter(
    (_name, index) => !found.some(({ path }) => path.startsWith(`vectors[${index}]`)),
  )
  const lines = holding.map((name) => `${name}: holds, and the calls derived from it are refused`)
  if (problems.length > 0)
    return { problem: [...problems, ...lines].join('\n'), json: { problems, vectors: holding } }
  const text = lines.join('\n') || `${file}: is valid, but has no vectors`
  return { text, json: { problems, vectors: names } }
}

async function readSecret(cli: Cli, file: string | undefined): Promise<string | Problem> {
  const { ask } = cli.terminal
  const text =
    file === undefined
      ? await ask?.({ text: 'Secret of the provider: ', isSecret: true })
      : await readText(file)
  if (text === undefined || text === '')
    return { problem: 'Give the secret of the call in --secret-file', exitCode: exitCodes.misused }
  return typeof text === 'string' ? text.replace(/\r?\n$/, '') : text
}

async function create(name: string, path = `${name}.yaml`): Promise<Result> {
  const text = providerTemplate(name)
  const parsed = parseProviderFile(path, text)
  // Omits file name and line, because the file has not been written.
  if (parsed.kind === 'invalid') {
    const problems = parsed.problems.map((each) => each.slice(each.indexOf(': ') + 2))
    return { problem: problems.join('\n'), exitCode: exitCodes.misused }
  }
  try {
    await writeFile(path, text, { flag: 'wx' })
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST')
      return { problem: `${path} already exists`, exitCode: exitCodes.misused }
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      const folder = dirname(path)
      return {
        problem: `The folder ${folder} does not exist: mkdir -p ${folder}`,
        exitCode: exitCodes.misused,
      }
    }
    throw error
  }
  return { text: `Wrote ${path}. Next: latchkey providers test ${path}`, json: { file: path } }
}
