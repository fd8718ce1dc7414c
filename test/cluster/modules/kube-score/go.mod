module latchkey.test/kube-score

go 1.26.0

tool github.com/zegl/kube-score/cmd/kube-score
