import { expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'

const folder = 'docs/dashboard'
const pages = ['README.md', 'docs/index.md', 'docs/operate/dashboard.md']
const pictureBytesMax = 200_000

test.each(readdirSync(folder))(
  'picture %s of the dashboard: is used by a page, and its file is small',
  (name) => {
    const path = `${folder}/${name}`
    expect(pages.filter((page) => readFileSync(page, 'utf8').includes(`dashboard/${name}`))).not.toEqual([])
    expect(statSync(path).size).toBeLessThan(pictureBytesMax)
  },
)
