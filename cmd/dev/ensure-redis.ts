import { ensureRedis, StoreStartError } from '#internal/dev/index.ts'

// Run before the tests, whose time limits leave no room for installing a package.
try {
  if (!process.env['LATCHKEY_REDIS_URL']) await ensureRedis((line) => console.error(`> ${line}`))
} catch (error) {
  if (!(error instanceof StoreStartError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
