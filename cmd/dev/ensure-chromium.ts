import { ensureChromium, StoreStartError } from '#internal/dev/index.ts'

// Run before the tests that drive a browser, whose time limits leave no room for installing a package.
try {
  await ensureChromium((line) => console.error(`> ${line}`))
} catch (error) {
  if (!(error instanceof StoreStartError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
