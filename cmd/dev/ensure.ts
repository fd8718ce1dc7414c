import { ensureChromium, ensurePythonEnvironment, ensureRedis, StoreStartError } from '#internal/dev/index.ts'

// Finds or installs the programs that the arguments name. Runs before the tests, because a test's time limit is too short for an
// installation.
const ensure: Readonly<Record<string, (say: (line: string) => void) => Promise<unknown>>> = {
  redis: (say) => (process.env['LATCHKEY_REDIS_URL'] ? Promise.resolve() : ensureRedis(say)),
  chromium: ensureChromium,
  'python-client': (say) => ensurePythonEnvironment('test/clients/python/requirements.txt', say),
}
try {
  for (const name of process.argv.slice(2)) await ensure[name]?.((line) => console.error(`> ${line}`))
} catch (error) {
  if (!(error instanceof StoreStartError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
