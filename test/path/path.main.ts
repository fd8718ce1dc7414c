// Measures the path of a webhook through the code and prints it: npm run path -- webhook [--write]. With --write, writes it to
// internal/README.md.
import { stopTestStores } from '#test/support/stores.ts'
import { describePath, measurePath, readmePath, withPath } from './path.ts'

if (process.argv[2] !== 'webhook') {
  console.error('usage: npm run path -- webhook [--write]')
  process.exit(2)
}
try {
  const text = describePath(await measurePath())
  console.log(text)
  if (process.argv.includes('--write'))
    await Bun.write(readmePath, withPath(await Bun.file(readmePath).text(), text))
} finally {
  await stopTestStores()
}
