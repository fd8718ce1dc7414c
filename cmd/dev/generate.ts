import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { crdFiles } from '#internal/tenants/index.ts'
import { chartFiles } from './chart/files.ts'
import { noticesPath, noticesText } from './notices.ts'

// What is generated is committed, for those who only apply it; tests tell when this has to run again.
const root = resolve(import.meta.dir, '../..')
const files = [
  ...crdFiles().map(({ name, text }) => ({ path: `crds/${name}`, text })),
  ...chartFiles(),
  { path: noticesPath, text: await noticesText() },
]
for (const { path, text } of files) {
  mkdirSync(dirname(resolve(root, path)), { recursive: true })
  writeFileSync(resolve(root, path), text)
  console.log(path)
}
