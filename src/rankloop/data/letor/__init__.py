"""The reader of LETOR, MSLR, Yahoo, Yandex and svmlight files."""
