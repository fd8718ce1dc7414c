// Builds the documentation site, or serves it with reloading: bun cmd/dev/docs/docs.main.ts [build|dev [options of VitePress]]
import { statSync } from 'node:fs'
import { relative } from 'node:path'
import { repositoryRoot } from './pages.ts'
import { buildSite, serveSite, siteArchive } from './site.ts'

const [command = 'build', ...args] = process.argv.slice(2)
if (command === 'dev') await serveSite(args)
else if (command === 'build') {
  await buildSite()
  console.log(`${relative(repositoryRoot, siteArchive)}  ${(statSync(siteArchive).size / 1e6).toFixed(1)} MB`)
} else {
  console.error('usage: npm run docs -- [build|dev]')
  process.exit(2)
}
