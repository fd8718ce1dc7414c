// Installs the programs and packages that a fresh clone lacks, then runs one command. Plain JavaScript for Node 20 without packages,
// because this script installs them:
// node cmd/dev/setup.mjs dev|test|test:e2e|test:clients|test:faults|test:cluster|test:nightly|test:defects|lint|bench|build|format|generate|docs|docs:diagrams|screenshots|record|path|latchkey|example|program|client-files [arguments]
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism, constants, tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const nodeMajorMin = 20
const parentCheckMs = 1000
const sameSignalMs = 1000
/** Time limit of a test. Includes starting the stores in the first test of a process, which takes seconds on a slow machine. */
const testMsMax = 30_000
/**
 * Maximum number of test processes, each with its own stores. Can exceed the number of processors, because tests also wait for disks and
 * timeouts.
 */
const testProcessesMax = 4
const clusterTests = 'test/cluster'
/** Tests of whole processes, of pages in a browser (files named `dashboard-…`) and of the documentation's commands. */
const endToEndTests = ['test/e2e', 'test/path']
/** Tests that install packages from PyPI and npm. */
const clientTests = ['test/clients/python', 'test/clients/packages']
/** Fault tests stop whole stores for many seconds, so they run separately from the other tests. */
const faultTests = 'test/faults'
/** Part of the names of test files that run only in `test:nightly`, or when a pattern names them: whole matrices and long waits. */
const nightlyTests = '.nightly.test.'
/** Module by which other test files declare single tests for `test:nightly`. */
const nightlySupport = "'#test/support/nightly.ts'"
/** Time limit of a cluster test. A restarted API server needs some seconds until it accepts calls. */
const clusterTestMsMax = 120_000
const commands = {
  dev: (bun, args) => run(bun, ['cmd/dev/main.ts', ...args]),
  test: runTest,
  'test:e2e': runEndToEndTest,
  'test:clients': runClientTest,
  'test:faults': runFaultTest,
  'test:cluster': runClusterTest,
  'test:nightly': runNightlyTest,
  'test:defects': runDefects,
  lint: runLint,
  bench: runBench,
  build: (bun, args) => run(bun, ['cmd/dev/build.ts', ...args]),
  format: () => run(join(root, 'node_modules/.bin/biome'), ['check', '--write', '.']),
  generate: (bun) => run(bun, ['cmd/dev/generate.ts']),
  docs: (bun, args) => run(bun, ['cmd/dev/docs/docs.main.ts', ...args]),
  'docs:diagrams': (bun) => run(bun, ['test/e2e/diagrams.main.ts']),
  screenshots: runScreenshots,
  record: (bun) => run(bun, ['test/contract/record.main.ts']),
  path: async (bun, args) => (await ensure(bun, 'redis')) || run(bun, ['test/path/path.main.ts', ...args]),
  latchkey: runLatchkey,
  example: runExample,
  program: compileProgram,
  // Builds nothing but what every command has built before it.
  'client-files': () => 0,
}
/** Programs of `examples` by folder. One in Python is a folder with its default port. */
const examples = {
  'express-shop': ['examples/express-shop/shop.ts'],
  'fastapi-events': ['cmd/dev/python-example.ts', 'examples/fastapi-events', process.env.PORT ?? '3002'],
  'hono-worker': ['examples/hono-worker/worker.ts'],
}

/** Addresses and credentials that `npm run dev` leaves for `npm run latchkey`, by the variable that replaces the whole group. */
const addressGroups = {
  LATCHKEY_DATABASE_URL: /^LATCHKEY_(DATABASE|REDIS)_/,
  LATCHKEY_URL: /^LATCHKEY_(URL|API_KEY)$/,
  LATCHKEY_INTERNAL_URL: /^LATCHKEY_(INTERNAL_URL|TOKEN)$/,
}

/** The running child process. Signals to this process are forwarded to the child. */
let current
/** The first signal that this process received. No further command is started after a signal. */
let endedBy
let endedAtMs

await main(process.argv[2] ?? '', process.argv.slice(3))

async function main(name, args) {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (!command) fail(`usage: node cmd/dev/setup.mjs ${Object.keys(commands).join('|')} [arguments]`)
  if (Number.parseInt(process.versions.node, 10) < nodeMajorMin)
    fail(`Node ${nodeMajorMin} or newer is needed; this is ${process.versions.node}`)
  if (process.platform === 'win32') fail('Windows is not supported; use WSL')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => passOn(signal))
  watchParent()
  const bun = await findBun()
  await install(bun)
  await buildClientFiles(bun)
  process.exit(await command(bun, args))
}

/** Runs the tests beside the code. Patterns can name end-to-end tests as well. */
async function runTest(bun, args) {
  const { patterns } = splitArgs(args)
  demandTests(testFiles(['clients', 'cmd', 'internal', 'test']), patterns)
  const named = testFiles(endToEndTests).filter((path) => matches(path, patterns))
  return runInParallel(bun, {
    args,
    ignored: named.length > 0 ? [] : endToEndTests,
    drivesBrowser: named.some(isInBrowser),
    timings: patterns.length === 0 ? 'test-timings' : undefined,
  })
}

/** Runs the tests of whole processes, of pages in a browser, and of the commands in the documentation. */
async function runEndToEndTest(bun, args) {
  const { flags, files } = chooseTests(endToEndTests, args)
  return runInParallel(bun, {
    args: [...flags, ...files],
    ignored: [],
    drivesBrowser: files.some(isInBrowser),
    timings: splitArgs(args).patterns.length === 0 ? 'e2e-timings' : undefined,
  })
}

function isInBrowser(path) {
  return path.includes('/dashboard-')
}

/** Runs test files in several processes. Updates the file of timings after a whole run only, since others do not execute every test. */
async function runInParallel(bun, { args, ignored, drivesBrowser, timings }) {
  const ensured = await ensure(bun, 'redis', ...(drivesBrowser ? ['chromium'] : []))
  if (ensured !== 0) return ensured
  const { patterns } = splitArgs(args)
  if (patterns.length === 0) {
    const compiled = await compileProgram(bun)
    if (compiled !== 0) return compiled
  }
  const processes = Math.min(availableParallelism() + 1, testProcessesMax)
  const flags = [
    `--timeout=${testMsMax}`,
    ...[clusterTests, faultTests, ...clientTests, ...ignored].map(
      (path) => `--path-ignore-patterns=${path}/**`,
    ),
    ...(namesNightly(patterns) ? [] : [`--path-ignore-patterns=**/*${nightlyTests}*`]),
    // With --no-isolate, a test process keeps its loaded modules for all its test files, and so also its stores.
    `--parallel=${processes}`,
    '--no-isolate',
    ...(timings ? [`--timings=${testTimings(timings)}`, '--update-timings'] : []),
  ]
  return run(bun, ['test', ...flags, ...args])
}

/**
 * Returns the file with the durations of the test files, by which the slowest files start first. Creates the file with rough durations
 * before the first run.
 */
function testTimings(name) {
  const path = join(root, '.latchkey', `${name}.json`)
  if (existsSync(path)) return path
  const msOf = (file) => (isInBrowser(file) ? 60_000 : file.includes('/dev') ? 30_000 : 10_000)
  const files = testFiles(endToEndTests).map((file) => [file, msOf(file)])
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, JSON.stringify({ version: 1, files: Object.fromEntries(files) }))
  return path
}

/** Compiles the program that tests start, unless its sources are unchanged. A test that did it would need most of its time limit. */
function compileProgram(bun) {
  return run(bun, ['test/support/processes/compiled-program.ts'])
}

function ensure(bun, ...programs) {
  return run(bun, ['cmd/dev/ensure.ts', ...programs])
}

/** Runs the tests of the clients that install packages. Those from PyPI are kept in `.latchkey`. */
async function runClientTest(bun, args) {
  const ensured = await ensure(bun, 'redis', 'python-client')
  if (ensured !== 0) return ensured
  const { flags, files } = chooseTests(clientTests, args)
  return run(bun, ['test', `--timeout=${testMsMax}`, ...flags, ...files])
}

/**
 * Runs the fault tests of stores, processes and callbacks. Each test prints how many events were sent, acknowledged, delivered and lost.
 */
async function runFaultTest(bun, args) {
  const ensured = await ensure(bun, 'redis', 'python-client')
  if (ensured !== 0) return ensured
  const { flags, files } = chooseTests(faultTests, args)
  // Fault tests keep their stores on a disk, as in production. Other tests can keep them in memory.
  process.env.LATCHKEY_TEST_STORES_DIR ??= tmpdir()
  return run(bun, ['test', `--timeout=${testMsMax}`, ...flags, ...files])
}

/**
 * Runs the cluster tests: first against a Kubernetes API server, then the files named node-… on a whole node. Without KUBECONFIG or
 * LATCHKEY_NODE_URL, a local server and node are started for the tests. The node tests install, drain and remove objects, so they use
 * another cluster only if LATCHKEY_NODE_URL names it.
 */
async function runClusterTest(bun, args) {
  const ensured = await ensure(bun, 'redis')
  if (ensured !== 0) return ensured
  const { KUBECONFIG, LATCHKEY_NODE_URL } = process.env
  const needsNode = (path) => path.includes('/node-')
  const isAllowed = (path) => (needsNode(path) ? LATCHKEY_NODE_URL : !path.includes('/faults/'))
  const { flags, files } = chooseTests(clusterTests, args, (path) => !KUBECONFIG || isAllowed(path))
  const parts = [
    { options: [], part: files.filter((path) => !needsNode(path)) },
    {
      options: ['--node', bun, ...(files.some((path) => path.includes('/node-scale.')) ? ['--addons'] : [])],
      part: files.filter(needsNode).sort(installFirst),
    },
  ]
  let exitCode = 0
  for (const { options, part } of parts) {
    if (part.length === 0) continue
    const command = [bun, 'test', `--timeout=${clusterTestMsMax}`, ...flags, ...part]
    const partCode = await run(`${clusterTests}/run`, [...options, ...command])
    exitCode = exitCode || partCode
  }
  return exitCode
}

/** Runs the test files that the other commands leave out, wholly or in part, suite by suite; a suite without such a file is passed over. */
async function runNightlyTest(bun, args) {
  const suites = [
    [runTest, ['clients', 'cmd', 'internal', 'test/contract', ...endToEndTests]],
    [runClientTest, clientTests],
    [runFaultTest, faultTests],
    [runClusterTest, clusterTests],
  ]
  const { patterns } = splitArgs(args)
  process.env.LATCHKEY_TEST_NIGHTLY = 'true'
  let exitCode = 0
  for (const [runSuite, folders] of suites) {
    const files = testFiles(folders).filter(isNightly)
    const chosen = files.filter((path) => patterns.length === 0 || matches(path, patterns))
    if (chosen.length > 0) exitCode = (await runSuite(bun, chosen)) || exitCode
  }
  return exitCode
}

/** Compares test files for sorting: by name, but the installation tests come first, because the node must not have an installation yet. */
function installFirst(one, other) {
  const isInstall = (path) => Number(path.includes('/node-install.'))
  return isInstall(other) - isInstall(one) || one.localeCompare(other)
}

/**
 * Splits arguments into path patterns, excluding patterns (with a leading !) and flags. The argument after a flag can be the flag's value.
 */
function splitArgs(args) {
  const isPattern = (arg, at) => !arg.startsWith('-') && !args[at - 1]?.startsWith('-')
  const all = args.filter(isPattern)
  return {
    patterns: all.filter((pattern) => !pattern.startsWith('!')),
    excluded: all.filter((pattern) => pattern.startsWith('!')).map((pattern) => pattern.slice(1)),
    flags: args.filter((arg, at) => !isPattern(arg, at)),
  }
}

function namesNightly(patterns) {
  return patterns.some((pattern) => pattern.includes('nightly'))
}

function isNightly(path) {
  return path.includes(nightlyTests) || readFileSync(join(root, path), 'utf8').includes(nightlySupport)
}

function matches(path, patterns) {
  return patterns.some((pattern) => path.includes(pattern.replace(/^\.\//, '')))
}

/** Returns the test files in one or several folders. */
function testFiles(folders) {
  return [folders].flat().flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .filter((path) => path.endsWith('.test.ts') || path.endsWith('.test.tsx'))
      .map((path) => `${folder}/${path}`),
  )
}

/** Ends the command if a pattern matches none of the test files, because a misspelled one would skip its tests silently. */
function demandTests(files, patterns) {
  const unknown = patterns.find((pattern) => !files.some((path) => matches(path, [pattern])))
  if (unknown !== undefined) fail(`no test file has ${unknown} in its path`)
}

/** Returns the test files in one or several folders that match the arguments, and the flags among the arguments. */
function chooseTests(folder, args, isAllowed = () => true) {
  const { patterns, excluded, flags } = splitArgs(args)
  const all = testFiles(folder)
  demandTests(all, patterns)
  const files = all
    .filter((path) => isAllowed(path) && !matches(path, excluded))
    .filter((path) => namesNightly(patterns) || !path.includes(nightlyTests))
    .filter((path) => patterns.length === 0 || matches(path, patterns))
  if (files.length === 0) fail(`no test in ${folder} has ${args.join(' ')} in its path`)
  return { flags, files: files.map((path) => `./${path}`) }
}

/** Applies seeded defects one at a time in a copy of the checkout, and demands that a test notices each. Arguments: ids of defects. */
async function runDefects(bun, args) {
  const ensured = await ensure(bun, 'redis')
  return ensured === 0 ? run(bun, ['test/defects/defects.main.ts', ...args]) : ensured
}

/** Runs the benchmark that the first argument names; default: the benchmark of records (see CONTRIBUTING.md). */
async function runBench(bun, args) {
  const ensured = await ensure(bun, 'redis')
  if (ensured !== 0) return ensured
  const [first, ...others] = args
  return ['records', 'records-plan', 'webhooks', 'events', 'queue', 'client', 'tenants'].includes(first)
    ? run(bun, [`test/bench/${first}.main.ts`, ...others])
    : run(bun, ['test/bench/main.ts', ...args])
}

/**
 * Runs the `latchkey` tool with the stores and the APIs of the running dev server, unless the environment names others. Tests of pages name
 * the compiled program, which starts with a third of the processor time.
 */
async function runLatchkey(bun, args) {
  const path = join(resolve(root, process.env['LATCHKEY_DATA_DIR'] ?? '.latchkey'), 'stores.json')
  const stored = existsSync(path) ? Object.entries(JSON.parse(readFileSync(path, 'utf8'))) : []
  const missing = Object.entries(addressGroups).filter(([name]) => process.env[name] === undefined)
  for (const [, group] of missing)
    Object.assign(process.env, Object.fromEntries(stored.filter(([name]) => group.test(name))))
  const compiled = process.env['LATCHKEY_TEST_PROGRAM']
  delete process.env['LATCHKEY_TEST_PROGRAM']
  return compiled ? run(compiled, args, 'inherit') : run(bun, ['cmd/latchkey/main.ts', ...args], 'inherit')
}

/** Takes the pictures of the dashboard in `docs/dashboard`, from a dev server with its demo. */
async function runScreenshots(bun) {
  const ensured = await ensure(bun, 'redis', 'chromium')
  if (ensured !== 0) return ensured
  const names = readdirSync(join(root, 'docs/dashboard')).map((file) => `=${file.replace(/\.png$/, '')}`)
  return run(bun, ['test/e2e/screenshots.main.ts', 'docs/dashboard', ...names])
}

/** Runs a program of `examples`, with the client library of this repository. */
async function runExample(bun, [name = '']) {
  const program = Object.hasOwn(examples, name) ? examples[name] : undefined
  if (!program) fail(`usage: npm run example -- ${Object.keys(examples).join('|')}`)
  return run(bun, program)
}

/** Writes the types of both APIs, without which the command line does not pass the type check. */
async function buildApiTypes(bun) {
  const { exitCode, output } = await capture(bun, ['cmd/dev/api-types.ts'])
  if (exitCode !== 0) fail(`${output}\nthe types of the APIs were not built (exit code ${exitCode})`)
}

/** Runs every check, even after a failure, so that one run shows all findings. */
async function runLint(bun) {
  await step('types of the APIs', () => buildApiTypes(bun))
  const checks = [
    ['oxlint', '--type-aware', '--deny-warnings'],
    // Biome colours its last line even when the output is a file.
    ['biome', 'ci', ...(process.stdout.isTTY ? [] : ['--colors=off']), '.'],
    ['knip'],
    ['tsc', '--noEmit'],
    // The client library uses only interfaces of the web, so that it runs anywhere.
    ['tsc', '--noEmit', '--project', 'clients/typescript'],
    ['tsc', '--noEmit', '--project', 'examples'],
  ]
  const failed = []
  for (const [tool, ...args] of checks) {
    const line = [tool, ...args].join(' ')
    const exitCode = await step(line, () => run(join(root, 'node_modules/.bin', tool), args))
    if (exitCode !== 0) failed.push(line)
  }
  for (const line of failed) console.error(`failed: ${line}`)
  return failed.length === 0 ? 0 : 1
}

/**
 * Returns the path of the Bun version in package.json. Prefers a remembered path and then the PATH; otherwise gets Bun with npx and
 * remembers its path.
 */
async function findBun() {
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const version = /^bun@(\d+\.\d+\.\d+)$/.exec(packageManager)?.[1]
  if (!version) fail('package.json: packageManager must be bun@<exact version>')
  const note = join(root, '.latchkey', `bun-${version}.path`)
  const noted = existsSync(note) ? readFileSync(note, 'utf8').trim() : ''
  const ask = ['-e', 'console.log(JSON.stringify([Bun.version, process.execPath]))']
  const known = [
    noted,
    ...(process.env.PATH ?? '')
      .split(delimiter)
      .filter(Boolean)
      .map((dir) => join(dir, 'bun')),
  ]
  for (const path of known.filter(existsSync)) {
    const real = realBun(spawnSync(path, ask, { encoding: 'utf8' }).stdout, version)
    if (real) return real
  }
  return step(`Bun ${version}: getting it with npx`, async () => {
    const { exitCode, output } = await capture('npx', ['--yes', `bun@${version}`, ...ask])
    const real = realBun(output, version)
    if (!real) fail(`npx could not run bun@${version} (exit code ${exitCode})`)
    mkdirSync(dirname(note), { recursive: true })
    writeFileSync(note, `${real}\n`)
    return real
  })
}

/** Returns the path of the Bun binary instead of its wrapper script, so that signals reach Bun directly. */
function realBun(output, version) {
  const line = (output ?? '').trim().split('\n').at(-1) ?? ''
  if (!line.startsWith('[')) return undefined
  const [found, path] = JSON.parse(line)
  return found === version ? path : undefined
}

/**
 * Installs the packages if node_modules does not match bun.lock. Writes the stamp file last, so that an interrupted installation is
 * repeated.
 */
async function install(bun) {
  const stamp = join(root, 'node_modules/.latchkey-stamp')
  const wanted = createHash('sha256').update(`${bun} ${process.platform} ${process.arch}`)
  for (const file of ['package.json', 'bun.lock']) wanted.update(readFileSync(join(root, file)))
  const digest = wanted.digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return
  await step('Packages: bun install --frozen-lockfile', async () => {
    const { exitCode, output } = await capture(bun, ['install', '--frozen-lockfile'])
    if (exitCode !== 0) fail(`${output}\nbun install failed (exit code ${exitCode})`)
    writeFileSync(stamp, digest)
  })
}

/** Builds the files of the client libraries that are in no commit, if what they come from changed. */
async function buildClientFiles(bun) {
  const built = [
    'typescript/src/event-sources.generated.ts',
    'typescript/src/event-samples.generated.ts',
    'python/src/latchkey/testing/event-samples.txt',
  ]
  const stamp = join(root, '.latchkey/client-files.stamp')
  const sources = createHash('sha256')
  for (const folder of ['config/providers', 'internal/providers', 'cmd/dev'])
    for (const path of readdirSync(join(root, folder), { recursive: true }).toSorted()) {
      const { size, mtimeMs } = statSync(join(root, folder, path))
      sources.update(`${folder}/${path} ${size} ${mtimeMs}\n`)
    }
  const digest = sources.digest('hex')
  const isBuilt = built.every((path) => existsSync(join(root, 'clients', path)))
  if (isBuilt && existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return
  const { exitCode, output } = await capture(bun, ['cmd/dev/client-files.ts'])
  if (exitCode !== 0)
    fail(`${output}\nthe files of the client libraries were not built (exit code ${exitCode})`)
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, digest)
}

async function step(text, work) {
  const startedAt = performance.now()
  console.error(`> ${text}`)
  const result = await work()
  console.error(`  ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  return result
}

async function capture(program, args) {
  let output = ''
  const exitCode = await run(program, args, ['ignore', 'pipe', 'pipe'], (bytes) => {
    output += bytes
  })
  return { exitCode, output }
}

/**
 * Runs a child in its own process group and returns its exit code. This process forwards Ctrl-C to the child. In the terminal's group, the
 * child would get the signal several times: from the terminal, from npm and from this process.
 */
function run(program, args, stdio = ['ignore', 'inherit', 'inherit'], onOutput = undefined) {
  if (endedBy) return exitBy(endedBy)
  return new Promise((done) => {
    const child = spawn(program, args, { cwd: root, stdio, detached: true })
    current = child
    if (onOutput) for (const stream of [child.stdout, child.stderr]) stream.on('data', onOutput)
    child.on('error', (error) => fail(`${program}: ${error.message}`))
    child.on('close', (code, signal) => {
      current = undefined
      done(code ?? 128 + constants.signals[signal])
    })
  })
}

function passOn(signal) {
  // The terminal and npm can both send the same Ctrl-C, and a second signal would kill the child immediately.
  if (endedBy && performance.now() - endedAtMs < sameSignalMs) return
  endedBy ??= signal
  endedAtMs ??= performance.now()
  if (!current) return exitBy(signal)
  try {
    // Signals the whole process group, because npx and bun install have child processes.
    process.kill(-current.pid, signal)
  } catch {
    // The child process has already exited, and its `close` event follows.
  }
}

function exitBy(signal) {
  process.exit(128 + constants.signals[signal])
}

/** Stops this process when its npm parent ends, because a killed npm sends no signal. Does nothing if npm did not start this process. */
function watchParent() {
  if (!process.env.npm_lifecycle_event) return
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent && !endedBy) passOn('SIGTERM')
  }, parentCheckMs).unref()
}

function fail(text) {
  if (endedBy) exitBy(endedBy)
  console.error(text)
  process.exit(1)
}
