// Sets up what a fresh clone lacks, then runs one command. Plain JavaScript for Node 20 without packages, since it runs before
// there are any: node cmd/dev/setup.mjs dev|test|test:faults|test:cluster|lint|bench|format|generate|latchkey [arguments]
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, constants, tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
const nodeMajorMin = 20
const parentCheckMs = 1000
const sameSignalMs = 1000
/** A test may be the first of its run and wait for the stores, on a slow machine for some seconds. */
const testMsMax = 30_000
/** Test files at a time, each process of them with stores of its own: they wait for disks and time-outs more than they compute. */
const testProcessesMax = 4
const clusterTests = 'test/cluster'
/** Those named dashboard-… drive a browser. */
const browserTests = 'test/e2e'
/** They break whole stores for many seconds, so they have a run of their own. */
const faultTests = 'test/faults'
/** An API server that is started again takes some seconds to let anybody in. */
const clusterTestMsMax = 120_000
const commands = {
  dev: runDev,
  test: runTest,
  'test:faults': runFaultTest,
  'test:cluster': runClusterTest,
  lint: runLint,
  bench: runBench,
  format: runFormat,
  generate: runGenerate,
  latchkey: runLatchkey,
}

/** The one child that runs at the moment; it gets our signals. */
let current
/** Set by the first signal: no further step begins. */
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
  process.exit(await command(bun, args))
}

async function runDev(bun, args) {
  return run(bun, ['cmd/dev/main.ts', ...args])
}

async function runTest(bun, args) {
  const redis = await run(bun, ['cmd/dev/ensure.ts', 'redis'])
  if (redis !== 0) return redis
  if (drivesBrowser(args)) {
    const chromium = await run(bun, ['cmd/dev/ensure.ts', 'chromium'])
    if (chromium !== 0) return chromium
  }
  const without = [clusterTests, faultTests].map((path) => `--path-ignore-patterns=${path}/**`)
  // Each process keeps its modules from file to file, and with them its stores.
  const parallel = [`--parallel=${Math.min(availableParallelism(), testProcessesMax)}`, '--no-isolate']
  const exitCode = await run(bun, ['test', `--timeout=${testMsMax}`, ...parallel, ...without, ...args])
  if (exitCode !== 0) explainPatterns(args)
  return exitCode
}

/** Whether the tests that are meant have those of the dashboard's pages among them. */
function drivesBrowser(args) {
  const patterns = args.filter((arg, at) => !arg.startsWith('-') && !args[at - 1]?.startsWith('-'))
  if (patterns.length === 0) return true
  const paths = readdirSync(join(root, browserTests)).filter((name) => name.startsWith('dashboard-'))
  return paths.some((name) => patterns.some((pattern) => `./${browserTests}/${name}`.includes(pattern)))
}

/** Faults of the stores, of the processes and of callbacks. Each prints what was sent, acknowledged, delivered and lost. */
async function runFaultTest(bun, args) {
  const redis = await run(bun, ['cmd/dev/ensure.ts', 'redis'])
  if (redis !== 0) return redis
  const { flags, files } = chooseTests(faultTests, args, () => true)
  if (files.length === 0) fail(`no test in ${faultTests} has ${args.join(' ')} in its path`)
  // On a disk, as stores are; other tests may keep them in memory.
  process.env.LATCHKEY_TEST_STORES_DIR ??= tmpdir()
  return run(bun, ['test', `--timeout=${testMsMax}`, ...flags, ...files])
}

/**
 * Against a Kubernetes API server, the one of KUBECONFIG, or one that is started for this and can be broken; then, in files named
 * node-…, on a whole node that is started for this. They install, drain and remove things, so that another cluster has to be meant,
 * by LATCHKEY_NODE_URL.
 */
async function runClusterTest(bun, args) {
  const redis = await run(bun, ['cmd/dev/ensure.ts', 'redis'])
  if (redis !== 0) return redis
  const isOfNode = (path) => path.includes('/node-')
  const isMeant = (path) =>
    !process.env.KUBECONFIG ||
    (isOfNode(path) ? Boolean(process.env.LATCHKEY_NODE_URL) : !path.includes('/faults/'))
  const { flags, files } = chooseTests(clusterTests, args, isMeant)
  if (files.length === 0)
    fail(`no test in ${clusterTests} has ${args.join(' ')} in its path (see ${clusterTests}/README.md)`)
  const parts = [
    { cluster: [], part: files.filter((path) => !isOfNode(path)) },
    { cluster: ['--node', bun], part: files.filter(isOfNode).sort(installFirst) },
  ]
  let exitCode = 0
  for (const { cluster, part } of parts) {
    if (part.length === 0) continue
    const command = [bun, 'test', `--timeout=${clusterTestMsMax}`, ...flags, ...part]
    const partCode = await run(`${clusterTests}/run`, [...cluster, ...command])
    exitCode = exitCode || partCode
  }
  return exitCode
}

/** By name, but what wants to install comes before what finds an installation: there is nothing to remove then. */
function installFirst(one, other) {
  const isInstall = (path) => Number(path.includes('/node-install.'))
  return isInstall(other) - isInstall(one) || one.localeCompare(other)
}

/** The test files of a folder that have one of the patterns among the arguments in their path, or all, without those of a `!pattern`; and the other arguments. */
function chooseTests(folder, args, isMeant) {
  // What follows a flag may be its value.
  const isPattern = (arg, at) => !arg.startsWith('-') && !args[at - 1]?.startsWith('-')
  const patterns = args.filter(isPattern)
  const without = patterns.filter((pattern) => pattern.startsWith('!')).map((pattern) => pattern.slice(1))
  const wanted = patterns.filter((pattern) => !pattern.startsWith('!'))
  const files = readdirSync(join(root, folder), { recursive: true })
    .map((path) => `./${folder}/${path}`)
    .filter((path) => path.endsWith('.test.ts') && isMeant(path))
    .filter((path) => wanted.length === 0 || wanted.some((pattern) => path.includes(pattern)))
    .filter((path) => !without.some((pattern) => path.includes(pattern)))
  return { flags: args.filter((arg, at) => !isPattern(arg, at)), files }
}

/** Bun says that no file matched, but not what would. */
function explainPatterns(args) {
  // What follows a flag may be its value.
  const patterns = args.filter((arg, at) => !arg.startsWith('-') && !args[at - 1]?.startsWith('-'))
  if (patterns.length === 0) return
  const files = ['cmd', 'internal', 'test'].flatMap((dir) =>
    readdirSync(join(root, dir), { recursive: true })
      .filter((path) => path.endsWith('.test.ts'))
      .map((path) => join(root, dir, path))
      .filter((path) => ![clusterTests, faultTests].some((folder) => path.startsWith(join(root, folder)))),
  )
  if (files.some((file) => patterns.some((pattern) => file.includes(pattern.replace(/^\.\//, ''))))) return
  console.error(`
No test file has ${patterns.map((pattern) => `"${pattern}"`).join(' or ')} in its path. Name a part of one, a folder or a test:

  npm test -- records
  npm test -- internal/tenants
  npm test -- -t 'a part of a test’s name'
`)
}

/** Measures records, or what is named by the first argument: `webhooks`, or `events` with many of them behind. */
async function runBench(bun, args) {
  const redis = await run(bun, ['cmd/dev/ensure.ts', 'redis'])
  if (redis !== 0) return redis
  const [first, ...others] = args
  return first === 'webhooks' || first === 'events'
    ? run(bun, [`test/bench/${first}.main.ts`, ...others])
    : run(bun, ['test/bench/main.ts', ...args])
}

async function runFormat() {
  return run(join(root, 'node_modules/.bin/biome'), ['check', '--write', '.'])
}

async function runGenerate(bun) {
  return run(bun, ['cmd/dev/generate.ts'])
}

/** On the stores of a dev server that runs, unless others are named. */
async function runLatchkey(bun, args) {
  const path = join(resolve(root, process.env['LATCHKEY_DATA_DIR'] ?? '.latchkey'), 'stores.json')
  if (process.env['LATCHKEY_DATABASE_URL'] === undefined && existsSync(path))
    Object.assign(process.env, JSON.parse(readFileSync(path, 'utf8')))
  return run(bun, ['cmd/latchkey/main.ts', ...args])
}

/** Runs every check, also after one has failed, so that one run shows all there is to mend. */
async function runLint() {
  const checks = [
    ['oxlint', '--type-aware', '--deny-warnings'],
    // It colours its last line also for a file.
    ['biome', 'ci', ...(process.stdout.isTTY ? [] : ['--colors=off']), '.'],
    ['knip'],
    ['tsc', '--noEmit'],
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

/** The Bun that package.json names: the one on the PATH if it is that version, otherwise npm's, which npx keeps. */
async function findBun() {
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const version = /^bun@(\d+\.\d+\.\d+)$/.exec(packageManager)?.[1]
  if (!version) fail('package.json: packageManager must be bun@<exact version>')
  const ask = ['-e', 'console.log(JSON.stringify([Bun.version, process.execPath]))']
  const known = [rememberedBun(version), onPath('bun')].filter((path) => path && existsSync(path))
  for (const path of known) {
    const real = realBun(spawnSync(path, ask, { encoding: 'utf8' }).stdout, version)
    if (real) return remember(version, real)
  }
  return step(`Bun ${version}: getting it with npx`, async () => {
    const { exitCode, output } = await capture('npx', ['--yes', `bun@${version}`, ...ask])
    const real = realBun(output, version)
    if (!real) fail(`npx could not run bun@${version} (exit code ${exitCode})`)
    return remember(version, real)
  })
}

/** The program itself rather than a script that starts it, so that signals reach it directly. */
function realBun(output, version) {
  const line = (output ?? '').trim().split('\n').at(-1) ?? ''
  if (!line.startsWith('[')) return undefined
  const [found, path] = JSON.parse(line)
  return found === version ? path : undefined
}

function onPath(name) {
  const dirs = (process.env.PATH ?? '').split(delimiter).filter(Boolean)
  return dirs.map((dir) => join(dir, name)).find((path) => existsSync(path))
}

function bunNote(version) {
  return join(root, '.latchkey', `bun-${version}.path`)
}

/** Asking npx again each time would cost about a second. */
function rememberedBun(version) {
  const note = bunNote(version)
  return existsSync(note) ? readFileSync(note, 'utf8').trim() : undefined
}

function remember(version, path) {
  const note = bunNote(version)
  mkdirSync(dirname(note), { recursive: true })
  if (rememberedBun(version) !== path) writeFileSync(note, `${path}\n`)
  return path
}

/** Installs when node_modules is not what bun.lock says. The stamp comes last, so that an install cut short is repeated. */
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
 * Runs a child in a process group of its own and gives its exit code. Ctrl-C reaches it through us alone: from the terminal's
 * group it would get the signal twice or more often, once from each of terminal, npm and us.
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
  // The terminal and npm may both send us the same Ctrl-C, and a second signal would end the child at once.
  if (endedBy && performance.now() - endedAtMs < sameSignalMs) return
  endedBy ??= signal
  endedAtMs ??= performance.now()
  if (!current) return exitBy(signal)
  try {
    // To its whole group: npx and bun install have children of their own.
    process.kill(-current.pid, signal)
  } catch {
    // Gone already; its 'close' event follows.
  }
}

function exitBy(signal) {
  process.exit(128 + constants.signals[signal])
}

/** npm killed outright tells nobody; a process that the shell started in the background may well outlive the shell. */
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
