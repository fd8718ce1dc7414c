import { mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { crdFiles } from '#internal/tenants/index.ts'

// What is generated is committed, for those who only apply it; a test tells when this has to run again.
const folder = resolve(import.meta.dir, '../../crds')
mkdirSync(folder, { recursive: true })
for (const { name, text } of crdFiles()) {
  writeFileSync(resolve(folder, name), text)
  console.log(`crds/${name}`)
}
