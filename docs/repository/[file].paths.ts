// Pages of the files that other pages link to.
import { sharedFiles, sharedPageText } from '../../cmd/dev/docs/links.ts'

export default {
  paths: () =>
    sharedFiles().map((file) => ({
      params: { file: file.page.replace('repository/', '') },
      content: sharedPageText(file),
    })),
}
